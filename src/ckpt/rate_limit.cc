#include "ckpt/rate_limit.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace shanty::ckpt {
namespace {

constexpr Duration kMaxNap = std::chrono::milliseconds(100);  // so that `cancel` is seen in time
constexpr double kMaxTurnSeconds = 3600;

}  // namespace

bool RateLimit::wait_for(uint64_t bytes, const std::atomic<bool>* cancel) {
  const auto cancelled = [cancel] { return cancel != nullptr && cancel->load(); };
  const uint64_t rate = bytes_per_s_;
  if (rate == 0) return !cancelled();
  const TimePoint turn = take_turn(bytes, rate);
  while (!cancelled()) {
    const Duration left = turn - system_clock().now();
    if (left <= Duration::zero()) return true;
    std::this_thread::sleep_for(std::min(left, kMaxNap));
  }
  return false;
}

TimePoint RateLimit::take_turn(uint64_t bytes, uint64_t bytes_per_s) {
  const std::lock_guard lock(mutex_);
  next_ = std::max(next_, system_clock().now());
  const TimePoint turn = next_;
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_s);
  next_ = next_ + Duration(static_cast<int64_t>(std::min(seconds, kMaxTurnSeconds) * 1e9));
  return turn;
}

}  // namespace shanty::ckpt
