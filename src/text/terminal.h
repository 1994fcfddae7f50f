#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shanty {

// What a descriptor can show.
struct TerminalTraits {
  bool tty = false;
  bool colour = false;  // a terminal, no NO_COLOR, TERM is not "dumb"
  bool utf8 = false;    // by LC_ALL, LC_CTYPE, LANG
  int width = 80;       // columns; 80 where there is no terminal
};

// Looks at `fd` and the environment. The width is read anew at each call.
TerminalTraits terminal_traits(int fd);

// `text` cut to at most `columns`, at a character's border, escape sequences kept whole.
std::string cut_to_width(std::string_view text, size_t columns);

namespace sgr {
inline constexpr std::string_view kReset = "\x1b[0m";
inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kRed = "\x1b[31m";
inline constexpr std::string_view kGreen = "\x1b[32m";
inline constexpr std::string_view kYellow = "\x1b[33m";
}  // namespace sgr

// `text` in `style`, or as it is without colour.
std::string styled(std::string_view text, std::string_view style, bool colour);

}  // namespace shanty
