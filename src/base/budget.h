#pragma once

#include <cstddef>
#include <deque>

#include "base/clock.h"

namespace shanty {

// Allows something `max` times within any `window`.
class Budget {
 public:
  Budget(size_t max, Duration window) : max_(max), window_(window) {}

  // Whether it is allowed once more; if so, that counts.
  bool allow(TimePoint now) {
    while (!times_.empty() && now - times_.front() > window_) times_.pop_front();
    if (times_.size() >= max_) return false;
    times_.push_back(now);
    return true;
  }

 private:
  size_t max_;
  Duration window_;
  std::deque<TimePoint> times_;
};

}  // namespace shanty
