#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "text/json_fields.h"
#include "telemetry/failures.h"
#include "telemetry/report.h"
#include "telemetry/step_ledger.h"
#include "telemetry/time_ledger.h"

namespace shanty {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kNsPerUs = 1000;
constexpr double kUsPerSecond = 1e6;
constexpr const char* kUseful = "";

int64_t begin_ns(const StepRecord& record) {
  return record.end_unix_ns - int64_t{record.step_us} * kNsPerUs;
}

int64_t start_of(const ReportInput& input) {
  if (input.info.started_unix_ns > 0) return input.info.started_unix_ns;
  return input.events.empty() ? input.now_unix_ns : input.events.front().unix_ns;
}

// The last sign of life of a run that told no end.
int64_t last_sign_of(const ReportInput& input) {
  int64_t last = start_of(input);
  for (const Event& event : input.events) last = std::max(last, event.unix_ns);
  for (const RankSteps& steps : input.steps) {
    if (!steps.records.empty()) last = std::max(last, steps.records.back().end_unix_ns);
  }
  return last;
}

void set_outcome(const ReportInput& input, Report& report) {
  report.outcome = input.running ? "running" : "died";
  report.reason = input.running ? "" : "no end was recorded";
  report.ended_unix_ns = input.running ? input.now_unix_ns : last_sign_of(input);
  bool told_by_coordinator = false;
  for (const Event& event : input.events) {
    if (event.kind != event_kind::kEnded || told_by_coordinator) continue;
    const auto extra = parse_json(event.extra_json);
    const std::string outcome = extra ? json_string(*extra, "outcome") : "";
    if (outcome.empty()) continue;
    report.outcome = outcome;
    report.reason = json_string(*extra, "reason", event.text);
    report.ended_unix_ns = event.unix_ns;
    // A command tells an end too, for a coordinator that cannot any more.
    told_by_coordinator = event.source == "coordinator";
  }
  report.ended_unix_ns = std::max(report.ended_unix_ns, report.started_unix_ns);
}

uint64_t count_generations(const ReportInput& input) {
  uint64_t last = 0;
  for (const Event& event : input.events) {
    const bool begins =
        event.kind == event_kind::kWorldFormed || event.kind == event_kind::kWorkersStarted;
    if (begins) last = std::max(last, event.generation);
  }
  for (const RankSteps& steps : input.steps) last = std::max(last, steps.generation);
  return last;
}

// From the first word of waiting to the world that ended it.
std::vector<TimeLedger::Interval> waiting_times(const ReportInput& input, int64_t end_ns) {
  std::vector<TimeLedger::Interval> out;
  bool waiting = false;
  for (const Event& event : input.events) {
    if (event.kind == event_kind::kWaiting && !waiting) {
      out.push_back({event.unix_ns, end_ns});
      waiting = true;
    } else if (event.kind == event_kind::kWorldFormed && waiting) {
      out.back().to_ns = event.unix_ns;
      waiting = false;
    }
  }
  return out;
}

// When each generation's workers were started, the earliest word of it.
std::map<uint64_t, int64_t> starts_of_generations(const ReportInput& input) {
  std::map<uint64_t, int64_t> out;
  for (const Event& event : input.events) {
    if (event.kind == event_kind::kWorkersStarted) out.try_emplace(event.generation, event.unix_ns);
  }
  return out;
}

// A script without steps: only what lies between a failure and the next start is lost.
void spend_without_steps(const ReportInput& input, const std::vector<ReportFailure>& failures,
                         int64_t end_ns, TimeLedger& ledger) {
  const auto starts = starts_of_generations(input);
  if (starts.empty()) ledger.spend_until(end_ns, loss_cause::kStartUp);
  if (!starts.empty()) ledger.spend_until(starts.begin()->second, loss_cause::kStartUp);
  for (const ReportFailure& failure : failures) {
    const auto next = starts.upper_bound(failure.generation);
    if (next == starts.end()) continue;
    ledger.spend_until(failure.unix_ns, kUseful);
    ledger.spend_until(next->second, loss_cause::kRestart);
  }
  ledger.spend_until(end_ns, kUseful);
}

// Between the last step of one generation (0 = the start of the job) and the first of another.
// What was under way when it failed has to be done again.
void spend_gap(uint64_t from_generation, uint64_t to_generation, int64_t until_ns,
               const std::vector<ReportFailure>& failures, TimeLedger& ledger) {
  const bool at_start = from_generation == 0;
  for (const ReportFailure& failure : failures) {
    if (failure.generation < from_generation || failure.generation >= to_generation) continue;
    ledger.spend_until(std::min(failure.unix_ns, until_ns),
                       at_start ? loss_cause::kStartUp : loss_cause::kRepeated);
    ledger.spend_until(until_ns, loss_cause::kRestart);
  }
  ledger.spend_until(until_ns, at_start ? loss_cause::kStartUp : loss_cause::kRestart);
}

void spend_after_last_step(uint64_t generation, const Report& report, TimeLedger& ledger) {
  // Generations after it that never came to a step.
  int64_t restarted_until = generation < report.generations ? report.ended_unix_ns : 0;
  for (const ReportFailure& failure : report.failures) {
    if (failure.generation == report.generations) restarted_until = failure.unix_ns;
  }
  if (generation < report.generations) {
    spend_gap(generation, report.generations, restarted_until, report.failures, ledger);
  }
  const bool goes_on = report.outcome == "running";
  ledger.spend_until(report.ended_unix_ns, goes_on ? kUseful : loss_cause::kShutdown);
}

void spend_with_steps(const ReportInput& input, const Report& report, TimeLedger& ledger) {
  uint64_t before = 0;
  for (const RankSteps& steps : input.steps) {
    if (steps.records.empty()) continue;
    spend_gap(before, steps.generation, begin_ns(steps.records.front()), report.failures, ledger);
    ledger.spend_until(steps.records.back().end_unix_ns, kUseful);
    before = steps.generation;
  }
  spend_after_last_step(before, report, ledger);
}

struct StepTotals {
  double useful_s = 0;
  double repeated_s = 0;
  double checkpoint_s = 0;
};

StepTotals count_steps(const ReportInput& input, Report& report) {
  StepTotals totals;
  const auto useful = find_useful_steps(input.steps, input.events);
  for (const RankSteps& steps : input.steps) {
    const UsefulSteps& rule = useful.at(steps.generation);
    for (const StepRecord& record : steps.records) {
      const double step_s = record.step_us / kUsPerSecond;
      if (rule.contains(record)) {
        ++report.steps;
        totals.useful_s += step_s;
        totals.checkpoint_s += std::min(step_s, record.checkpoint_us / kUsPerSecond);
      } else {
        ++report.repeated_steps;
        totals.repeated_s += step_s;
      }
      report.last_step = record.step;
      report.has_last_step = true;
      if (!std::isnan(record.loss)) report.final_loss = static_cast<double>(record.loss);
    }
  }
  report.has_steps = report.steps + report.repeated_steps > 0;
  return totals;
}

// Each process counts its own saves; where the count is not told every event is one.
void count_checkpoints(const ReportInput& input, Report& report) {
  std::map<std::pair<uint64_t, int>, uint64_t> saved;
  for (const Event& event : input.events) {
    if (event.kind != event_kind::kCheckpointSaved) continue;
    uint64_t& count = saved[{event.generation, event.rank}];
    const auto extra = parse_json(event.extra_json);
    const uint64_t told = extra ? json_uint64(*extra, "count") : 0;
    count = std::max(told, told == 0 ? count + 1 : count);
  }
  for (const auto& [who, count] : saved) report.checkpoints_saved += count;
  report.checkpoints = input.checkpoints;
}

void add_event_notes(const ReportInput& input, Report& report) {
  std::set<std::string> seen;
  for (const Event& event : input.events) {
    const bool worth_it = event.kind == event_kind::kHooksOff ||
                          event.kind == event_kind::kOutputStalled ||
                          event.kind == event_kind::kWarning;
    if (worth_it && !event.text.empty() && seen.insert(event.text).second) {
      report.notes.push_back(event.text);
    }
  }
}

void split_time(const ReportInput& input, const StepTotals& totals, Report& report) {
  TimeLedger ledger(report.started_unix_ns, report.ended_unix_ns);
  ledger.set_exception(loss_cause::kWaiting, waiting_times(input, report.ended_unix_ns));
  if (report.has_steps) {
    spend_with_steps(input, report, ledger);
    ledger.move_useful(totals.repeated_s, loss_cause::kRepeated);
    ledger.move_useful(totals.checkpoint_s, loss_cause::kCheckpoints);
  } else {
    spend_without_steps(input, report.failures, report.ended_unix_ns, ledger);
  }
  for (const char* cause :
       {loss_cause::kStartUp, loss_cause::kWaiting, loss_cause::kRestart, loss_cause::kRepeated,
        loss_cause::kCheckpoints, loss_cause::kShutdown}) {
    report.losses.push_back({cause, ledger.seconds(cause)});
  }
  report.useful_time_s = ledger.useful_s();
}

}  // namespace

const SavedFile* newest_usable(const Report& report) {
  for (const SavedFile& saved : report.checkpoints) {
    if (saved.state == SavedState::kWhole || saved.state == SavedState::kUnknown) return &saved;
  }
  return nullptr;
}

Report account(const ReportInput& input) {
  Report report;
  report.run_id = input.info.run_id;
  report.job_name = input.info.job_name;
  report.run_directory = input.run_directory;
  report.nodes = input.info.nodes;
  report.world_size = input.info.world_size();
  report.logs = input.run_directory + "/logs";
  report.notes = input.notes;
  report.final_loss = kUnknown;
  report.samples_per_s = kUnknown;
  report.started_unix_ns = start_of(input);
  set_outcome(input, report);
  report.wall_time_s = ns_to_seconds(report.ended_unix_ns - report.started_unix_ns);
  report.generations = count_generations(input);
  report.failures = find_failures(input.events);
  const StepTotals totals = count_steps(input, report);
  split_time(input, totals, report);
  if (totals.useful_s > 0) report.samples_per_s = input.total_samples / totals.useful_s;
  count_checkpoints(input, report);
  add_event_notes(input, report);
  return report;
}

}  // namespace shanty
