#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace shanty::ckpt {

// Lets so many bytes per second through, all that ask together. Nothing is saved up while nobody
// asks. Thread-safe.
class RateLimit {
 public:
  void set_rate(uint64_t bytes_per_s) { bytes_per_s_ = bytes_per_s; }  // 0 = no limit

  // Waits until `bytes` may be written; false when `cancel` was set meanwhile.
  bool wait_for(uint64_t bytes, const std::atomic<bool>* cancel);

 private:
  TimePoint take_turn(uint64_t bytes, uint64_t bytes_per_s);

  std::atomic<uint64_t> bytes_per_s_ = 0;
  std::mutex mutex_;  // guards `next_`
  TimePoint next_;
};

}  // namespace shanty::ckpt
