#pragma once

#include <string_view>

namespace shanty::lint {

// Whether a variable of that name is there for a secret: HF_TOKEN, but not the EOS_TOKEN of a
// vocabulary.
bool names_secret(std::string_view name);
// Whether a variable of that name holds a secret when it has this value written out.
bool is_written_secret(std::string_view name, std::string_view value);

}  // namespace shanty::lint
