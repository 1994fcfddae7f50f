#include "ckpt/memory_room.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/units.h"
#include "cluster/cgroup.h"

namespace shanty::ckpt {
namespace {

std::mutex mutex;
uint64_t promised = 0;  // guarded by it: of all that is not present yet

}  // namespace

Result<MemoryPromise> MemoryPromise::make(uint64_t bytes, const std::string& what,
                                          const std::string& root) {
  MemoryPromise promise(0);
  const auto room = read_memory_room(root);
  const std::lock_guard lock(mutex);
  const auto left = room ? static_cast<uint64_t>(room->value) : bytes + promised;
  if (left < bytes + promised) {
    const std::string others =
        promised == 0 ? ""
                      : fmt::format(" of which {} are promised to others", format_bytes(promised));
    return Error{fmt::format(
        "{}: {} more are needed, and {} leaves {}{}; raise the container's memory limit, or have "
        "fewer ranks on a node",
        what, format_bytes(bytes), room->from, format_bytes(left), others)};
  }
  promised += bytes;
  promise.left_ = bytes;
  return promise;
}

MemoryPromise::MemoryPromise(MemoryPromise&& other) noexcept
    : left_(std::exchange(other.left_, 0)) {}

MemoryPromise::~MemoryPromise() {
  if (left_ > 0) use(left_);
}

void MemoryPromise::use(uint64_t bytes) {
  bytes = std::min(bytes, left_);
  left_ -= bytes;
  const std::lock_guard lock(mutex);
  promised -= bytes;
}

}  // namespace shanty::ckpt
