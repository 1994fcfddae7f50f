#pragma once

#include <string>
#include <string_view>

namespace shanty {

// `text` as one word of a POSIX shell.
std::string shell_word(std::string_view text);

}  // namespace shanty
