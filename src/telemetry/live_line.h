#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "telemetry/live.h"

namespace shanty {

// What live.json holds as one line of JSON, for those whom only a node's log reaches. Of a large
// job it has the kMaxLineRanks ranks that hold it up most, see hold_up_most_first().
inline constexpr size_t kMaxLineRanks = 64;
inline constexpr size_t kMaxLiveLineBytes = 256 * 1024;
std::string encode_live_line(const LiveState& state);
Result<LiveState> decode_live_line(std::string_view line);

// A log is rotated by its size, so a longer line is written less often: one in 10 s to one in 60 s.
inline constexpr Duration kLongestLiveLineWait = std::chrono::seconds(60);
Duration wait_after_live_line(size_t line_bytes);

// Who holds the others up comes first: dead, then behind, then long in a step.
void hold_up_most_first(std::vector<RankTelemetry>& ranks);

}  // namespace shanty
