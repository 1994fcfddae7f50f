#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shanty::lint {

// The commands of a text that is handed to another shell, `bash -c "..."`, as words. Quotes,
// `$(...)` and backticks hold words together; what is inside them stays as it is written.
std::vector<std::vector<std::string>> commands_in(std::string_view text);

}  // namespace shanty::lint
