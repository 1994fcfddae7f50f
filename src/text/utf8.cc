#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace shanty {
namespace {

struct Character {
  uint32_t code = 0;
  size_t size = 0;  // 0: the bytes are no character
};

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

Character decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return {};
  uint32_t code = lead & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return {};
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kSmallest[size] || code > 0x10ffff || surrogate) return {};
  return {code, size};
}

struct Span {
  uint32_t first, last;
};

constexpr Span kZeroWidth[] = {
    {0x0300, 0x036f}, {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x2064},
    {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
};
constexpr Span kWide[] = {
    {0x1100, 0x115f}, {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
    {0xa000, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

template <size_t N>
bool within(const Span (&spans)[N], uint32_t code) {
  return std::any_of(std::begin(spans), std::end(spans),
                     [&](Span s) { return code >= s.first && code <= s.last; });
}

size_t width_of(uint32_t code) {
  if (code < 0x300) return 1;
  if (within(kZeroWidth, code)) return 0;
  return within(kWide, code) ? 2 : 1;
}

bool is_control(uint32_t code) {
  const bool bidirectional = code >= 0x202a && code <= 0x202e;
  const bool isolate = code >= 0x2066 && code <= 0x2069;
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || bidirectional || isolate;
}

}  // namespace

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = decode(text.substr(at));
    if (character.size == 0) return at;
    at += character.size;
  }
  return std::nullopt;
}

bool has_control_character(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = decode(text.substr(at));
    const uint32_t code = character.code;
    const bool is_space = code == '\t' || code == '\n' || code == '\r';
    const bool is_c0_or_c1 = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool is_none = code == 0xfeff || code == 0xfffe || code == 0xffff;
    if (is_none || (is_c0_or_c1 && !is_space)) return true;
    at += std::max<size_t>(character.size, 1);
  }
  return false;
}

std::string_view prefix_of_width(std::string_view text, size_t columns) {
  size_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    const Character character = decode(text.substr(at));
    const size_t width = character.size == 0 ? 1 : width_of(character.code);
    if (used + width > columns) break;
    used += width;
    at += std::max<size_t>(character.size, 1);
  }
  return text.substr(0, at);
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = decode(text.substr(at));
    width += character.size == 0 ? 1 : width_of(character.code);
    at += std::max<size_t>(character.size, 1);
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character character = decode(text.substr(at));
    const size_t size = std::max<size_t>(character.size, 1);
    if (character.size == 0 || is_control(character.code)) {
      out += text[at] == '\t' ? ' ' : '?';
    } else {
      out += text.substr(at, size);
    }
    at += size;
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  const std::string_view shown = prefix_of_width(text.substr(0, kMaxQuotedBytes), kMaxQuotedBytes);
  std::string out = "\"" + printable(shown);
  if (shown.size() < text.size()) {
    while (!out.empty() && out.back() == '?') out.pop_back();
    out += "...";
  }
  return out + "\"";
}

}  // namespace shanty
