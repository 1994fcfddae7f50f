#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/result.h"
#include "ckpt/memory_room.h"
#include "os/fd.h"

namespace shanty::ckpt {

// Word 2 of a slot's header, see docs/formats/checkpoint-engine.md.
enum class SlotState : uint64_t {
  kEmpty = 0,
  kFilling = 1,
  kCopied = 2,
  kDurable = 3,
  kCommitted = 4,
  kFailed = 5,
};

constexpr int kSlots = 2;

// The memory shared with one trainer: two slots and a header page for each. Its pages are made
// present in the background from the start, since a copy into absent ones is ten times slower.
class Arena {
 public:
  // `slot_bytes` is rounded up to whole pages. An error where the memory would not be there.
  static Result<std::shared_ptr<Arena>> create(uint64_t slot_bytes, uint64_t layout);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_.get(); }
  uint64_t slot_bytes() const { return slot_bytes_; }
  char* slot(int index) const;
  void set_step(int index, uint64_t step);
  void set_state(int index, SlotState state);
  SlotState state(int index) const;

 private:
  Arena(Fd fd, char* base, uint64_t slot_bytes, MemoryPromise promise);
  std::atomic_ref<uint64_t> word(int index, size_t word) const;
  void populate();

  Fd fd_;
  char* base_;
  uint64_t slot_bytes_;
  MemoryPromise promise_;
  std::atomic<bool> stopping_ = false;
  std::thread populating_;
};

}  // namespace shanty::ckpt
