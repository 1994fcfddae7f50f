#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/flight/value.h"

namespace shanty::flight {

// The bytes of one entry of a pickle with its numbers and references left open. The entries of a
// dump are nearly all made of the same opcodes, so one that fits a pattern seen before need not be
// interpreted again: ten times as fast. Good for one file, as long as its memos are not changed.
class EntryPattern {
 public:
  // `bytes` go from the dictionary's opcode to that which sets its items. nullopt: it holds strings
  // or memos of its own.
  static std::optional<EntryPattern> make(std::string_view bytes, std::span<const Value> memo);

  // Whether an entry of this pattern begins at `at`; `room` bytes are there.
  bool fits(const char* at, size_t room) const;
  // Equal for entries that differ in their sequence numbers and times alone.
  uint64_t context(const char* at) const;
  int64_t collective_seq(const char* at) const { return number(at, collective_seq_); }
  int64_t p2p_seq(const char* at) const { return number(at, p2p_seq_); }
  int64_t created(const char* at) const { return number(at, created_); }
  size_t size() const { return size_; }

 private:
  // Where a value begins; 0: the entry has none.
  static int64_t number(const char* at, size_t offset);
  // Returns which bytes the context is.
  std::string take_fields(std::string_view bytes, std::span<const Value> memo,
                          std::span<const size_t> items);

  std::vector<uint64_t> words_;    // the bytes that count, and
  std::vector<uint64_t> masks_;    // which they are
  std::vector<uint64_t> context_;  // which bytes the context is
  size_t size_ = 0;
  size_t collective_seq_ = 0;
  size_t p2p_seq_ = 0;
  size_t created_ = 0;
};

}  // namespace shanty::flight
