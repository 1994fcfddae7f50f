#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace shanty {

// What a line of a training log tells of a step, in whatever words: `step=12 loss=2.1`, `Step
// 12/100`, `{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': 0.1}`, `iteration 12/ 500 | lm loss:
// 2.1E+00 | elapsed time per iteration (ms): 812.3`, tqdm's `12/500 [00:04<02:41, 3.02it/s]`.
struct StepLine {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  bool has_step = false;
  uint64_t step = 0;
  double step_s = kUnknown;
  double data_s = kUnknown;
  double loss = kUnknown;
  double lr = kUnknown;
  double epoch = kUnknown;
  double batch = kUnknown;  // of all ranks
  double world_size = kUnknown;
  uint64_t samples_hash = 0;  // of the ids of the samples, 0 = not told
};

inline constexpr size_t kMaxStepLineBytes = 4096;  // of longer lines the beginning is looked at

// nullopt: the line tells neither a step nor a loss nor a time.
std::optional<StepLine> parse_step_line(std::string_view line);

}  // namespace shanty
