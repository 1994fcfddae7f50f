#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/flight/id_map.h"

namespace shanty::flight {

// What a dump may hold: the plain values of a pickle or of JSON, and nothing that does anything.
enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kString, kBytes, kList, kDict, kEntry };

// Keys that mean something to us. Told when a string is first seen, so that reading an entry is a
// switch.
enum class Field : uint8_t {
  kOther,
  kVersion,
  kRank,
  kEntries,
  kPgConfig,
  kPgStatus,
  kDesc,
  kRanks,
  kLastEnqueued,
  kLastCompleted,
  kPgId,
  kProcessGroup,
  kCollectiveSeq,
  kP2pSeq,
  kProfilingName,
  kInputSizes,
  kInputDtypes,
  kOutputSizes,
  kOutputDtypes,
  kTimeCreated,
  kTimeoutMs,
  kState,
  kRetired,
  kIsP2p,
  kFrames,
  kName,
  kFilename,
  kLine,
  kRecordId,
};

struct Value {
  Kind kind = Kind::kNone;
  uint32_t id = 0;     // of a string or a container
  int64_t number = 0;  // of a bool or an int; of a string its Field
};

// Told of each dictionary that is an entry of the recorder, as soon as it is whole; the dictionary
// itself is not kept.
class EntrySink {
 public:
  // Where an entry stands in a pickle, for sinks that know it again.
  struct Place {
    std::string_view bytes;  // from the dictionary's opcode to that which sets its items
    size_t room = 0;         // up to the end of the pickle
    std::span<const Value> memo;
  };

  virtual ~EntrySink() = default;
  // `pairs` are key, value, key, value ...
  virtual void on_entry(std::span<const Value> pairs, const Place& place) = 0;
  // A dictionary begins at `rest`. The size of the entry that it is, which has been taken; 0: not
  // known, it must be read.
  virtual size_t take_known(std::string_view rest) {
    static_cast<void>(rest);
    return 0;
  }
  // A memo now holds something else: nothing is known any more.
  virtual void forget_known() {}
};

// The values of one file. Strings are kept once; containers may hold each other in a circle, so a
// walk must have its own end. Not for more than one thread.
class ValueTree {
 public:
  // `text` must outlive the tree (pickle), or is copied (JSON).
  Value string(std::string_view text, Kind kind = Kind::kString);
  Value copied_string(std::string text);
  Value container(Kind kind) {
    blocks_.emplace_back();
    return {kind, static_cast<uint32_t>(blocks_.size() - 1), 0};
  }
  // Adds to a list, or pairs to a dictionary.
  void append(uint32_t container, std::span<const Value> values);
  void clear();

  std::string_view text(Value string) const;
  uint64_t hash(Value string) const { return strings_[string.id].hash; }
  static Field field(Value key) {
    return key.kind == Kind::kString ? static_cast<Field>(key.number) : Field::kOther;
  }
  // Of a list, tuple or dictionary; empty for anything else.
  std::span<const Value> items(Value container) const {
    if (container.kind != Kind::kList && container.kind != Kind::kDict) return {};
    const Block& block = blocks_[container.id];
    return {values_.data() + block.first, block.count};
  }
  // The value of a dictionary's key; None where there is none.
  Value get(Value dict, Field key) const;

 private:
  struct String {
    std::string_view text;
    uint64_t hash = 0;
    Field field = Field::kOther;
  };
  void reserve(size_t count);

  struct Block {
    size_t first = 0;
    uint32_t count = 0;
    uint32_t capacity = 0;
  };

  std::vector<String> strings_;
  IdMap string_ids_;  // by hash
  std::deque<std::string> copies_;
  std::vector<Block> blocks_;
  std::vector<Value> values_;  // the first used_ are in use
  size_t used_ = 0;
};

uint64_t hash_bytes(std::string_view bytes);
inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

// Whether `pairs` is an entry: it has a profiling_name.
inline bool is_entry(std::span<const Value> pairs) {
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (ValueTree::field(pairs[i]) == Field::kProfilingName) return true;
  }
  return false;
}

}  // namespace shanty::flight
