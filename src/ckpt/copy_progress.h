#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

namespace shanty::ckpt {

// How far the copy into a slot has come, for those who write its first bytes meanwhile.
// Thread-safe.
class CopyProgress {
 public:
  // Everything below `to` is there. Never goes back.
  void reach(const char* to) {
    const std::lock_guard lock(mutex_);
    reached_ = to;
    changed_.notify_all();
  }
  void end(bool whole) {
    const std::lock_guard lock(mutex_);
    whole_ = whole;
    changed_.notify_all();
  }
  // Waits until everything below `to` is there; false when the copy has failed.
  bool wait_for(const char* to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return whole_ || (reached_ != nullptr && reached_ >= to); });
    return whole_.value_or(true);
  }
  // Waits for `end`, and says what it said.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return whole_.has_value(); });
    return *whole_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const char* reached_ = nullptr;
  std::optional<bool> whole_;
};

}  // namespace shanty::ckpt
