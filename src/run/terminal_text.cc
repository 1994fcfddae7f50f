#include "run/terminal_text.h"

#include <fmt/format.h>

namespace shanty {
namespace {

// The length of the colour sequence (ESC [ digits ; : m) at the start of `text`, 0 = none.
size_t sgr_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

struct Utf8Lead {
  size_t length;
  unsigned char bits;
  uint32_t lowest;  // smaller code points are overlong
};

Utf8Lead lead_of(unsigned char byte) {
  if (byte >= 0xf0 && byte < 0xf8) return {4, 0x07, 0x10000};
  if (byte >= 0xe0 && byte < 0xf0) return {3, 0x0f, 0x800};
  if (byte >= 0xc0 && byte < 0xe0) return {2, 0x1f, 0x80};
  return {0, 0, 0};
}

// The length of the valid, printable multi-byte character at the start of `text`, 0 = none.
size_t character_length(std::string_view text) {
  const Utf8Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.length == 0 || text.size() < lead.length) return 0;
  uint32_t point = static_cast<unsigned char>(text[0]) & lead.bits;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return 0;
    point = (point << 6) | (byte & 0x3f);
  }
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  const bool second_control_set = point >= 0x80 && point < 0xa0;
  const bool direction_override =
      (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  if (point < lead.lowest || point > 0x10ffff || surrogate) return 0;
  return second_control_set || direction_override ? 0 : lead.length;
}

}  // namespace

std::string escape_for_terminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool coloured = false;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    size_t length = 0;
    if (byte == 0x1b) {
      length = sgr_length(text);
      coloured = coloured || length > 0;
    } else if (byte >= 0x80) {
      length = character_length(text);
    } else {
      length = (byte >= 0x20 && byte != 0x7f) || byte == '\t' ? 1 : 0;
    }
    if (length > 0) {
      out += text.substr(0, length);
    } else {
      out += fmt::format("\\x{:02x}", byte);
      length = 1;
    }
    text.remove_prefix(length);
  }
  if (coloured) out += "\x1b[0m";
  return out;
}

std::string format_ranks(const std::vector<int>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!out.empty()) out += ',';
    out += std::to_string(ranks[i]);
    if (last > i) out += '-' + std::to_string(ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace shanty
