#pragma once

#include <cstdint>
#include <string>

#include "run/run_dir.h"

namespace shanty {

// One run in a list of runs.
struct RunSummary {
  std::string run_id;
  std::string job_name;
  std::string directory;
  std::string state;  // "running" (or what the coordinator says instead), "succeeded", "failed",
                      // "stopped", "died" (nobody of it lives, and it told no end)
  std::string text;   // one sentence, "" = none
  int64_t started_unix_ns = 0;
  int64_t ended_unix_ns = 0;  // 0 = it still runs
  uint64_t generation = 0;
  int world_size = 0;
  bool has_step = false;
  uint64_t step = 0;
  uint64_t total_steps = 0;  // 0 = unknown

  bool ended() const { return ended_unix_ns != 0; }
};

// Looks at the run's small files: report.json, else live.json and the events.
RunSummary summarize_run(const RunDir& run);

}  // namespace shanty
