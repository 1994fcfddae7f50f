#pragma once

#include <string_view>

namespace shanty::lint {

// Whether a variable of that name holds a secret when it has this value written out.
bool is_written_secret(std::string_view name, std::string_view value);

}  // namespace shanty::lint
