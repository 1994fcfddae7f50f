#pragma once

#include <chrono>

#include "base/clock.h"

namespace shanty {

// Counts the signals that ask a command to stop. timeout(1) and some batch systems send each to the
// command and again to its group: that is one.
class StopCount {
 public:
  static constexpr Duration kSameSignal = std::chrono::milliseconds(200);

  // How many there were with this one, 0 where it is the one before over again.
  int take(TimePoint now) {
    if (count_ > 0 && now - last_ < kSameSignal) return 0;
    last_ = now;
    return ++count_;
  }
  // The one that was taken has been acted on, which a slow disk may have held up: what came
  // meanwhile was sent with it.
  void acted(TimePoint now) { last_ = now; }
  int count() const { return count_; }

 private:
  int count_ = 0;
  TimePoint last_;
};

}  // namespace shanty
