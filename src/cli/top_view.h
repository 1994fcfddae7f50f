#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "telemetry/live.h"
#include "telemetry/run_summary.h"

namespace shanty {

struct TopOptions {
  size_t width = 80;
  size_t max_ranks = 64;  // more are summed up in one line, the slowest are shown
  bool colour = false;
};

// One picture of a job, rank by rank. `live` may be of a run that ended.
std::string render_top(const RunSummary& run, const LiveState& live, int64_t now_unix_ns,
                       const TopOptions& options);

}  // namespace shanty
