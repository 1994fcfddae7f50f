#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shanty {

// How often keys (hashes) were seen, in a table of fixed size: fast, and flat whatever comes. When
// the places of a key are taken, it shares the count of the one that took the last of them.
class Tally {
 public:
  // The count of `key` before this call; it is one more after it.
  uint32_t add(uint64_t key) {
    if (slots_.empty()) slots_.resize(kSlots);
    size_t at = key % kSlots;
    for (size_t i = 1; i < kTries && slots_[at].count > 0 && slots_[at].key != key; ++i) {
      at = (at + 1) % kSlots;
    }
    if (slots_[at].count == 0) slots_[at].key = key;
    return slots_[at].count++;
  }
  void clear() { slots_.clear(); }

 private:
  static constexpr size_t kSlots = 1u << 17;
  static constexpr size_t kTries = 8;
  struct Slot {
    uint64_t key = 0;
    uint32_t count = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace shanty
