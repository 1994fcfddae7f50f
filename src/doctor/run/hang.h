#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "causes/finding.h"

namespace shanty {

// What one rank does at this moment.
struct RankNow {
  int rank = 0;
  int node_rank = 0;
  std::string node;
  int pid = 0;
  bool alive = true;
  bool has_step = false;
  uint64_t step = 0;  // the last one completed
  std::string phase;  // names of docs/formats/step-ring.md
  int64_t phase_since_unix_ns = 0;
  int64_t last_step_unix_ns = 0;
  double cpu_cores = 0;
  char process_state = 0;  // of /proc/PID/stat: R S D T ...; 0 = not to be seen from here
  std::string waits_in;    // the kernel function it sleeps in; "" = unknown
};

struct HangView {
  std::vector<RankNow> ranks;
  int64_t now_unix_ns = 0;
  double usual_step_s = 0;  // 0 = unknown
  std::string source;       // the file that tells this, for evidence
};

enum class Motion {
  kMoving,
  kTooEarly,  // slower than usual, not yet for kHangGraceS
  kHung,
  kNotStarted,  // no step was completed yet
};

struct HangVerdict {
  Motion motion = Motion::kMoving;
  double still_s = 0;             // since the last sign of progress
  double limit_s = 0;             // from when on it counts as a hang
  int64_t last_step_unix_ns = 0;  // of the rank that completed one longest ago
  std::vector<Finding> findings;
};

// A hang is no step for twice the usual time and this; with what it takes to see it, two steps and
// ten seconds.
inline constexpr double kHangGraceS = 8;

// Pure. Without a hang there are no findings, but for processes that are stopped.
HangVerdict judge_hang(const HangView& view);

}  // namespace shanty
