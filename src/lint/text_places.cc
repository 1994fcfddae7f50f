#include "lint/text_places.h"

#include <algorithm>

namespace shanty::lint {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

TextPlaces::TextPlaces(std::string_view text) : text_(text) {
  const bool marked = text.substr(0, kByteOrderMark.size()) == kByteOrderMark;
  starts_.push_back(marked ? kByteOrderMark.size() : 0);
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    starts_.push_back(at + 1);
  }
}

std::string_view TextPlaces::line(int number) const {
  if (number < 1 || static_cast<size_t>(number) > starts_.size()) return {};
  const size_t start = starts_[static_cast<size_t>(number) - 1];
  std::string_view line = text_.substr(start, text_.find('\n', start) - start);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

std::optional<size_t> TextPlaces::offset(Place place) const {
  if (place.line < 1 || static_cast<size_t>(place.line) > starts_.size()) return {};
  size_t at = starts_[static_cast<size_t>(place.line) - 1];
  for (int column = 1; column < place.column; ++column) {
    if (at >= text_.size() || text_[at] == '\n') return {};
    do {
      ++at;
    } while (at < text_.size() && !starts_character(text_[at]));
  }
  return at;
}

Place TextPlaces::place(size_t offset) const {
  const auto next = std::upper_bound(starts_.begin() + 1, starts_.end(), offset);
  const auto index = static_cast<size_t>(next - starts_.begin()) - 1;
  int column = 1;
  for (size_t at = starts_[index]; at < offset && at < text_.size(); ++at) {
    if (at + 1 <= offset && starts_character(text_[at])) ++column;
  }
  return {static_cast<int>(index) + 1, column};
}

std::optional<BlockStart> literal_block(const TextPlaces& places, const YamlNode& scalar) {
  const auto at = places.offset(scalar.place);
  if (!at || *at >= places.text().size() || places.text()[*at] != '|') return {};
  const size_t skipped = scalar.text.find_first_not_of('\n');
  const size_t blank = skipped == std::string::npos ? 0 : skipped;
  const std::string_view first = places.line(scalar.place.line + 1 + static_cast<int>(blank));
  const size_t value_line_end = std::min(scalar.text.find('\n', blank), scalar.text.size());
  const size_t value_line_bytes = value_line_end - blank;
  if (first.size() < value_line_bytes) return {};
  return BlockStart{scalar.place.line + 1, static_cast<int>(first.size() - value_line_bytes)};
}

Place place_within(const TextPlaces& places, const YamlNode& scalar, size_t offset) {
  offset = std::min(offset, scalar.text.size());
  if (const auto block = literal_block(places, scalar)) {
    const TextPlaces inner(scalar.text);
    const Place place = inner.place(offset);
    return {block->line + place.line - 1, block->indent + place.column};
  }
  const auto start = places.offset(scalar.place);
  if (!start) return scalar.place;
  const size_t quote = *start < places.text().size() &&
                       (places.text()[*start] == '"' || places.text()[*start] == '\'');
  const std::string_view value = scalar.text;
  const std::string_view before = value.substr(0, offset + 1);
  if (places.text().substr(*start + quote, before.size()) != before) return scalar.place;
  return places.place(*start + quote + offset);
}

}  // namespace shanty::lint
