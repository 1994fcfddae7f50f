#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shanty {

// "0-3,5,7-8" for ascending ranks.
std::string format_ranks(const std::vector<int>& ranks);
// `text` with everything escaped that could disturb a terminal; tabs, valid UTF-8 and colour (SGR)
// sequences pass, and a line that sets a colour ends by resetting it.
std::string escape_for_terminal(std::string_view text);

}  // namespace shanty
