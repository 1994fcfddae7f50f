#pragma once

#include <string_view>

#include "base/result.h"
#include "doctor/flight/value.h"

namespace shanty::flight {

inline constexpr size_t kMaxJsonDepth = 64;

// Reads a dump in its JSON form, as read_pickle does: entries go to `sink`, the rest is in `tree`.
Result<Value> read_json_dump(std::string_view bytes, ValueTree& tree, EntrySink& sink);

}  // namespace shanty::flight
