#include "ckpt/arrival.h"

#include <algorithm>
#include <utility>

namespace shanty::ckpt {

void Arrival::advance(const char* end) {
  const std::lock_guard lock(mutex_);
  end_ = std::max(end_, end);
  changed_.notify_all();
}

void Arrival::finish(Status status) {
  const std::lock_guard lock(mutex_);
  finished_ = std::move(status);
  changed_.notify_all();
}

Status Arrival::wait_for(const char* end) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ || end_ >= end; });
  return finished_ ? *finished_ : Status();
}

Status Arrival::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_.has_value(); });
  return *finished_;
}

}  // namespace shanty::ckpt
