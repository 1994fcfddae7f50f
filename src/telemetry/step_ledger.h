#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "run/events.h"
#include "telemetry/report.h"
#include "telemetry/step_record.h"

namespace shanty {

// Which steps of one generation count: those that no other generation did (again).
struct UsefulSteps {
  // Scripts that name their steps: what an earlier generation did up to here is done again.
  bool named = false;
  bool any_before = false;
  uint64_t done_before = 0;
  // Other scripts: what ended after this was lost with the generation, and done again by the next.
  int64_t kept_until_unix_ns = std::numeric_limits<int64_t>::max();

  bool contains(const StepRecord& record) const {
    if (named) return !any_before || record.step > done_before;
    return record.end_unix_ns <= kept_until_unix_ns;
  }
};

// By generation. Of a generation that was followed by another, steps count up to its last
// torch.save; without any, none does.
std::map<uint64_t, UsefulSteps> find_useful_steps(const std::vector<RankSteps>& steps,
                                                  const std::vector<Event>& events);

}  // namespace shanty
