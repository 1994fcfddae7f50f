#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "text/yaml_tree.h"

namespace shanty::lint {

// Places of a text as byte offsets and back. Borrows the text.
class TextPlaces {
 public:
  explicit TextPlaces(std::string_view text);

  std::string_view text() const { return text_; }
  size_t line_count() const { return starts_.size(); }
  // Without its end; empty beyond the last line.
  std::string_view line(int number) const;
  // Nothing when the text has no such place.
  std::optional<size_t> offset(Place place) const;
  Place place(size_t offset) const;

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
};

// The place of a byte of a scalar's value: exact in literal blocks and where a line of the source
// holds the value as it is, else that of the scalar.
Place place_within(const TextPlaces& places, const YamlNode& scalar, size_t offset);

// The line of the file at which a literal block's value begins; nothing for other scalars.
struct BlockStart {
  int line = 0;
  int indent = 0;
};
std::optional<BlockStart> literal_block(const TextPlaces& places, const YamlNode& scalar);

}  // namespace shanty::lint
