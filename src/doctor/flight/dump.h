#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "doctor/flight/trace.h"
#include "doctor/flight/value.h"

namespace shanty::flight {

inline constexpr size_t kMaxEntries = 1'000'000;    // of one dump
inline constexpr size_t kMaxShapeBytes = 160;       // shown of a call's shapes
inline constexpr size_t kMaxFrames = 64;            // looked at of a stack
inline constexpr size_t kMaxTensors = 4096;         // of one call that are looked at
inline constexpr size_t kMaxGroupRanks = 1U << 20;  // members of a group

// Reads dumps one after the other, keeping its memory. One thread each.
class DumpReader {
 public:
  explicit DumpReader(Tables& tables) : tables_(tables) {}
  // A pickle or JSON. The rank is the file's own word where it has one, else -1.
  Result<RankTrace> read(std::string_view bytes);

 private:
  Tables& tables_;
  ValueTree tree_;
};

// Whether these are the first bytes (some hundred) of a dump, by what it begins with.
bool looks_like_dump(std::string_view head);

}  // namespace shanty::flight
