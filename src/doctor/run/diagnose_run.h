#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "causes/finding.h"
#include "doctor/run/hang.h"
#include "doctor/run/resume.h"
#include "doctor/run/run_facts.h"

namespace shanty {

// A job that still runs: who holds it up, if it stands still. Looks again until that is decided (a
// step is made, or none for two usual steps and ten seconds) and calls `wait` between two looks.
// Nothing is killed or changed.
struct LiveOptions {
  std::function<void(Duration)> wait;
  std::string proc_root = "/proc";
};
std::vector<Finding> diagnose_live(const RunDir& run, const Clock& clock,
                                   const LiveOptions& options);

// A run that ended: what it stood at when it ended in a hang, what was slow, and whether each
// generation went on with what the one before had done.
std::vector<Finding> diagnose_run(const RunDir& run);

// Runs that belong together: one job resumed in another run, or the same job on more ranks.
std::vector<Finding> compare_runs(std::span<const RunDir> runs);

// The pieces.
HangView view_of(const LiveState& live, const RunFacts& facts, int64_t now_unix_ns);
double usual_step_s(const RunFacts& facts);
std::vector<Stretch> stretches_of(const RunDir& run, const RunFacts& facts);

}  // namespace shanty
