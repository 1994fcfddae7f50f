#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "doctor/flight/value.h"

namespace shanty::flight {

inline constexpr size_t kMaxPickleDepth = 64;      // marks that are open at once
inline constexpr size_t kMaxMemoGap = 4096;        // a memo's number beyond those given so far
inline constexpr size_t kMaxDumpBytes = 1U << 30;  // a recorder of a million entries

// Reads a pickle of protocol 2 to 5 made of dictionaries, lists, tuples, strings, bytes, numbers,
// True, False and None. What would look up a name, build an object or call something is refused
// with its opcode and its place, as is what is torn or breaks a limit. Nothing is ever executed.
// Entries go to `sink`; the rest is in `tree`, whose strings lie in `bytes`.
Result<Value> read_pickle(std::string_view bytes, ValueTree& tree, EntrySink& sink);

// Whether the bytes begin like a pickle of protocol 2 or later.
bool looks_like_pickle(std::string_view bytes);

}  // namespace shanty::flight
