#include "telemetry/step_ledger.h"

#include <algorithm>

namespace shanty {
namespace {

// A save within a step was made by what the steps before it had reached.
int64_t last_save_seen_in_steps(const RankSteps& steps) {
  int64_t kept = 0;
  for (size_t i = 1; i < steps.records.size(); ++i) {
    if (steps.records[i].checkpoint_us > 0) kept = steps.records[i - 1].end_unix_ns;
  }
  return kept;
}

int64_t last_save_told(const std::vector<Event>& events, uint64_t generation) {
  int64_t kept = 0;
  for (const Event& event : events) {
    if (event.kind == event_kind::kCheckpointSaved && event.generation == generation) {
      kept = std::max(kept, event.unix_ns);
    }
  }
  return kept;
}

bool names_steps(const RankSteps& steps) {
  return !steps.records.empty() && steps.records.back().named_by_script();
}

}  // namespace

std::map<uint64_t, UsefulSteps> find_useful_steps(const std::vector<RankSteps>& steps,
                                                  const std::vector<Event>& events) {
  uint64_t last_generation = 0;
  for (const Event& event : events) last_generation = std::max(last_generation, event.generation);
  for (const RankSteps& one : steps) last_generation = std::max(last_generation, one.generation);

  std::map<uint64_t, UsefulSteps> out;
  bool any_before = false;
  uint64_t done_before = 0;
  for (const RankSteps& one : steps) {
    UsefulSteps& useful = out[one.generation];
    useful.named = names_steps(one);
    useful.any_before = any_before;
    useful.done_before = done_before;
    if (useful.named) {
      for (const StepRecord& record : one.records) {
        done_before = any_before ? std::max(done_before, record.step) : record.step;
        any_before = true;
      }
    } else if (one.generation < last_generation) {
      useful.kept_until_unix_ns =
          std::max(last_save_seen_in_steps(one), last_save_told(events, one.generation));
    }
  }
  return out;
}

}  // namespace shanty
