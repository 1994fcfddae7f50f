#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/result.h"

namespace shanty::ckpt {

// How far memory that one thread fills, from its beginning on, is there for others. Thread-safe.
class Arrival {
 public:
  // Everything below `end` is there.
  void advance(const char* end);
  // All of it is there, or why the rest never will be.
  void finish(Status status);

  // Waits until everything below `end` is there; the error of `finish` when it never will be.
  Status wait_for(const char* end) const;
  // Waits for `finish`.
  Status wait() const;

 private:
  mutable std::mutex mutex_;  // guards all below
  mutable std::condition_variable changed_;
  const char* end_ = nullptr;
  std::optional<Status> finished_;
};

}  // namespace shanty::ckpt
