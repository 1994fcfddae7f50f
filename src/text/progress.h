#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "text/terminal.h"

namespace shanty {

// The numbers of the live line of `run`.
struct Progress {
  std::string state;  // "running" shows the numbers; any other is shown itself, with `text`
  std::string text;
  bool has_step = false;
  uint64_t step = 0;         // last completed
  uint64_t total_steps = 0;  // 0 = unknown
  double loss = 0;           // NaN = unknown
  double samples_per_s = 0;  // NaN = unknown
  double step_s = 0;         // 0 = unknown
  int restarts = 0;
};

// "step 812/5000 16% loss 2.31 | 1,234 samples/s | 81 ms/step | ETA 5 min 40 s | restarts 1",
// with less where `width` columns do not hold it.
std::string format_progress(const Progress& progress, size_t width);

// Owns the last line of what is shown: on a terminal a line that is redrawn in place, elsewhere a
// plain line, "shanty 04:31:51  step ...", at every change of state and every kPlainEvery.
// Everything else that is printed to the same place goes through print(). One thread.
class ProgressLine {
 public:
  static constexpr Duration kPlainEvery = std::chrono::seconds(10);
  static constexpr Duration kRedrawEvery = std::chrono::milliseconds(100);

  using Write = std::function<void(std::string_view)>;
  // `traits` is asked at each redraw, so that a resized window is followed.
  ProgressLine(std::function<TerminalTraits()> traits, const Clock& clock, Write write);

  void update(const Progress& progress);
  // Takes the line away, calls `write_lines` (which may print to this or another descriptor of the
  // same terminal, whole lines only), draws the line again.
  void around(const std::function<void()>& write_lines);
  // Writes whole lines around the progress line.
  void print(std::string_view lines);
  // Takes the line away for good.
  void finish();

 private:
  void draw();
  void erase();

  std::function<TerminalTraits()> traits_;
  const Clock& clock_;
  Write write_;
  Progress progress_;
  bool has_progress_ = false;
  bool drawn_ = false;
  bool finished_ = false;
  TimePoint last_draw_;
};

}  // namespace shanty
