#pragma once

#include <cstdint>
#include <string>

namespace shanty {

// What one rank is doing now, as the agent sees it from outside. Sent to the coordinator once a
// second and shown by `top`. Averages are over the steps of the last 10 s (at least one step).
struct RankTelemetry {
  int rank = 0;
  int node_rank = 0;
  int local_rank = 0;
  int pid = 0;
  uint64_t generation = 0;
  bool alive = false;
  bool hooked = false;           // the Python side claimed its ring
  std::string hooks_off_reason;  // "" = they work, or no word yet
  bool has_step = false;
  uint64_t step = 0;         // last completed step
  uint64_t total_steps = 0;  // 0 = unknown
  std::string phase;         // names in docs/formats/step-ring.md
  int64_t phase_since_unix_ns = 0;
  int64_t last_step_unix_ns = 0;
  double loss = 0;           // NaN = unknown
  double samples_per_s = 0;  // of this rank; NaN = unknown
  double step_s = 0;
  double data_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;
  double checkpoint_s = 0;
  double collective_s = 0;
  uint64_t steps_done = 0;  // records of this generation
  uint64_t missed_records = 0;
  uint64_t checkpoints_saved = 0;
  uint64_t rss_bytes = 0;  // the worker and its descendants
  double cpu_cores = 0;    // the same, over the last second
  int processes = 0;       // the worker and its descendants
};

}  // namespace shanty
