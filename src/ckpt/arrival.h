#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/result.h"

namespace shanty::ckpt {

// How much of a slot has been copied into it, from its beginning on. One thread tells of it, others
// wait. Thread-safe.
class Arrival {
 public:
  // All that lies below that address is there.
  void reach(const char* below) {
    const std::lock_guard lock(mutex_);
    below_ = below;
    changed_.notify_all();
  }
  // No more comes: everything is there, or the error says why it never will be.
  void end(Status status) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(status);
    changed_.notify_all();
  }

  // Returns when what lies below `below` is there; the error when it never will be.
  Status wait_for(const char* below) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value() || below_ >= below; });
    return end_.has_value() ? *end_ : Status();
  }
  Status wait_for_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value(); });
    return *end_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const char* below_ = nullptr;
  std::optional<Status> end_;
};

}  // namespace shanty::ckpt
