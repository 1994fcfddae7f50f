#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace shanty {

struct SplitLine {
  int64_t unix_ns = 0;
  std::string text;  // without the newline
  bool has_newline = true;
  bool continues = false;  // not the first piece of its line
};

// Cuts one stream of one rank into lines. A line beyond kMaxLineBytes comes in pieces, so memory
// stays bounded.
class LineSplitter {
 public:
  static constexpr size_t kMaxLineBytes = 64 * 1024;
  static constexpr Duration kRedrawEvery = std::chrono::seconds(10);

  // For terminals: of a line that redraws itself by carriage returns only the last state is kept;
  // of one that goes on redrawing, a state is handed out every kRedrawEvery.
  explicit LineSplitter(bool keep_last_redraw) : keep_last_redraw_(keep_last_redraw) {}

  void take(std::string_view bytes, int64_t unix_ns, std::vector<SplitLine>& out);
  // Nothing more will come: an unfinished line is handed out.
  void finish(std::vector<SplitLine>& out);
  // Forgets an unfinished line, when output was passed over.
  void reset();

 private:
  void end_line(int64_t unix_ns, std::vector<SplitLine>& out);
  void cut_giant(int64_t unix_ns, std::vector<SplitLine>& out);
  void hand_out_redraw(int64_t unix_ns, std::vector<SplitLine>& out);

  bool keep_last_redraw_;
  std::string partial_;
  int64_t partial_unix_ns_ = 0;
  bool continues_ = false;
  int64_t last_redraw_unix_ns_ = 0;
};

}  // namespace shanty
