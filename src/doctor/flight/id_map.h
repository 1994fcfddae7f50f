#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shanty::flight {

// From well mixed 64-bit hashes to small numbers. Two things with one hash are taken for one: with
// 2^24 things the chance of that is one in 100,000.
class IdMap {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // The number of `hash`, or kNone.
  uint32_t find(uint64_t hash) const {
    if (slots_.empty()) return kNone;
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      if (slots_[at].id == kNone || slots_[at].hash == hash) return slots_[at].id;
    }
  }
  // `hash` is not there yet.
  void insert(uint64_t hash, uint32_t id) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    place(hash, id);
    ++size_;
  }
  void clear() {
    if (size_ > 0) slots_.assign(slots_.size() > kKeptSlots ? 0 : slots_.size(), Slot());
    size_ = 0;
  }

 private:
  static constexpr size_t kKeptSlots = 1024;
  struct Slot {
    uint64_t hash = 0;
    uint32_t id = kNone;
  };

  void place(uint64_t hash, uint32_t id) {
    const size_t mask = slots_.size() - 1;
    size_t at = hash & mask;
    while (slots_[at].id != kNone) at = (at + 1) & mask;
    slots_[at] = {hash, id};
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kNone) place(slot.hash, slot.id);
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace shanty::flight
