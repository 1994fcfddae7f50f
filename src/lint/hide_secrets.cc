#include "lint/hide_secrets.h"

#include "lint/text_places.h"

namespace shanty::lint {
namespace {

bool is_kept(char c) {
  constexpr std::string_view kKept = " \t\r:={}[]\"',-";
  return kKept.find(c) != kKept.npos || (static_cast<unsigned char>(c) & 0x80) != 0;
}

void blot(std::string& text, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    if (!is_kept(text[i])) text[i] = '*';
  }
}

bool is_name_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

void hide_one(std::string& text, const TextPlaces& places, const Finding& finding) {
  const auto start = places.offset({finding.line, finding.column});
  if (!start) return;
  size_t name_end = *start;
  if (name_end < text.size() && (text[name_end] == '"' || text[name_end] == '\'')) ++name_end;
  while (name_end < text.size() && is_name_character(text[name_end])) ++name_end;
  const size_t line_end = std::min(text.find('\n', name_end), text.size());
  blot(text, name_end, line_end);
  const size_t next_end = std::min(text.find('\n', line_end + 1), text.size());
  if (line_end + 1 >= next_end) return;
  const size_t value = text.find("value:", line_end + 1);
  if (value < next_end) blot(text, value + 6, next_end);
}

}  // namespace

void hide_secrets(std::string& text, std::span<const Finding* const> secrets) {
  const TextPlaces places(text);  // what is blotted out keeps its place
  for (const Finding* finding : secrets) hide_one(text, places, *finding);
}

}  // namespace shanty::lint
