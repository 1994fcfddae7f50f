#pragma once

#include <memory>

#include "base/clock.h"
#include "run/run_dir.h"

namespace shanty {

// Waits for a run's logs to grow.
class LogWatch {
 public:
  virtual ~LogWatch() = default;
  // Returns when something under the run's logs may have changed, or after `timeout`.
  virtual void wait(Duration timeout) = 0;
};
// By inotify; where that is not to be had, by sleeping.
std::unique_ptr<LogWatch> watch_logs(const RunDir& run);

}  // namespace shanty
