#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "telemetry/rank_telemetry.h"

namespace shanty {

// The job as the coordinator last saw it: live.json, replaced once a second.
struct LiveState {
  int64_t unix_ns = 0;
  std::string
      state;  // "waiting", "running", "restarting", "stopping", "succeeded", "failed", "stopped"
  std::string text;  // one sentence: what it waits for, why it stops
  uint64_t generation = 0;
  int restarts = 0;
  std::vector<RankTelemetry> ranks;  // by rank
  int64_t started_unix_ns = 0;
  int nodes = 0;
  int world_size = 0;
};

inline constexpr size_t kMaxLiveBytes = 64 * 1024 * 1024;

std::string encode_live(const LiveState& state);
Result<LiveState> decode_live(std::string_view json);
Status write_live(const std::string& path, const LiveState& state);
Result<LiveState> read_live(const std::string& path);

// The same JSON object as in live.json, for other messages that carry one rank's telemetry.
std::string encode_rank_telemetry(const RankTelemetry& telemetry);
Result<RankTelemetry> decode_rank_telemetry(std::string_view json);

// What a whole job does, from its ranks: the slowest rank decides the step, samples add up.
struct JobProgress {
  bool has_step = false;
  uint64_t step = 0;         // the lowest last step of the ranks that report steps
  uint64_t total_steps = 0;  // 0 = unknown
  double loss = 0;           // of the lowest rank that knows one; NaN = unknown
  double samples_per_s = 0;  // of all ranks; NaN = unknown
  double step_s = 0;         // mean; 0 = unknown
};
JobProgress summarize(const std::vector<RankTelemetry>& ranks);

}  // namespace shanty
