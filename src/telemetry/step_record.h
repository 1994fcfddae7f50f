#pragma once

#include <cstdint>

namespace shanty {

// What one rank says about one step: the 56 payload bytes of a ring record (step-ring.md) and of a
// record in a steps file (steps.md), in the order they lie there.
struct StepRecord {
  static constexpr uint32_t kNamedByScript = 1;
  static constexpr uint32_t kFirstItemExcluded = 2;
  static constexpr uint32_t kCounted = 4;

  uint64_t step = 0;
  int64_t end_unix_ns = 0;
  uint32_t step_us = 0;
  uint32_t data_us = 0;
  uint32_t forward_us = 0;
  uint32_t backward_us = 0;
  uint32_t optimizer_us = 0;
  uint32_t checkpoint_us = 0;
  float loss = 0;     // NaN = unknown
  float samples = 0;  // NaN = unknown
  uint32_t collective_us = 0;
  uint32_t flags = 0;

  bool named_by_script() const { return (flags & kNamedByScript) != 0; }
  // Short steps are not all timed: of this one only the end, the length, the checkpoint's part and
  // what the script itself said are known.
  bool only_counted() const { return (flags & kCounted) != 0; }
};
static_assert(sizeof(StepRecord) == 56);

}  // namespace shanty
