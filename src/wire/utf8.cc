#include "wire/utf8.h"

#include <cstdint>

namespace shanty::wire {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Lead {
  size_t size;
  unsigned char second_min;  // the second byte's range keeps out overlong forms, surrogates and
  unsigned char second_max;  // what lies beyond U+10FFFF
};

Lead classify(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xc2 && lead <= 0xdf) return {2, 0x80, 0xbf};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3, 0x80, 0xbf};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {4, 0x80, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// Size of the character at the start of `text`, 0 when there is none.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = classify(byte(0));
  if (lead.size <= 1) return lead.size;
  if (text.size() < lead.size || byte(1) < lead.second_min || byte(1) > lead.second_max) return 0;
  for (size_t i = 2; i < lead.size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return lead.size;
}

}  // namespace

std::string clean_utf8(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character_size(text);
    const std::string_view next = size == 0 ? kReplacement : text.substr(0, size);
    if (out.size() + next.size() > max_bytes) break;
    out += next;
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace shanty::wire
