#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shanty {

// What Python writes above each frame of a traceback; as a needle it finds them all.
inline constexpr std::string_view kFrameNeedle = "  File \"";

// The end of a traceback: the line that names the exception, whatever the exception is called and
// whatever a logger or launcher writes in front of each line.
struct Raised {
  size_t begin = 0;  // of its line in the text
  size_t end = 0;
  size_t lines_below = 0;    // the frame
  std::string_view message;  // without what stands in front
  std::string_view type;     // without its module
  std::string_view what;
  std::string at;  // "train.py:7 in step"
};

// Looks below the frame at [begin, end) of `text`, which is a line that holds kFrameNeedle.
// nullopt: another frame comes first, or nothing that is named like an exception is near. The views
// are into `text`.
std::optional<Raised> raised_below(std::string_view text, size_t begin, size_t end);

}  // namespace shanty
