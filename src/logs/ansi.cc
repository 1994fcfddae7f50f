#include "logs/ansi.h"

namespace shanty {
namespace {

// The length of the sequence that starts at `at` with ESC; one that does not end takes the rest.
size_t sequence_length(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return 1;
  size_t i = at + 2;
  if (text[at + 1] == '[') {
    while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
    return i < text.size() ? i + 1 - at : i - at;
  }
  if (text[at + 1] == ']') {
    while (i < text.size() && text[i] != '\a' && text[i] != '\x1b') ++i;
    const bool terminator = i + 1 < text.size() && text[i] == '\x1b' && text[i + 1] == '\\';
    return (i < text.size() ? i + 1 : i) - at + (terminator ? 1 : 0);
  }
  return 2;
}

}  // namespace

bool has_ansi(std::string_view text) { return text.find('\x1b') != text.npos; }

std::string without_ansi(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\x1b') {
      out += text[i++];
    } else {
      i += sequence_length(text, i);
    }
  }
  return out;
}

}  // namespace shanty
