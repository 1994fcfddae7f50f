#pragma once

#include <string>
#include <string_view>

namespace shanty {

bool has_ansi(std::string_view text);
// Without escape sequences (CSI, OSC, two-character ones).
std::string without_ansi(std::string_view text);

}  // namespace shanty
