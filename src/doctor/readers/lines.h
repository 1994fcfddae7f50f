#pragma once

#include <cstdint>
#include <string_view>

#include "text/words.h"

namespace shanty {

// Goes through the lines of a text: for (Lines in(text); in.next();) use(in.line, in.number).
struct Lines {
  std::string_view rest;
  std::string_view line;
  uint64_t number = 0;

  explicit Lines(std::string_view text) : rest(text) {}

  bool next() {
    if (rest.empty()) return false;
    const size_t end = rest.find('\n');
    line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
    ++number;
    return true;
  }
};

// Without blanks at both ends.
inline std::string_view trimmed(std::string_view text) { return trimmed(text, " \t"); }

}  // namespace shanty
