#include "telemetry/run_summary.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "run/events.h"
#include "text/json_fields.h"
#include "telemetry/live.h"
#include "telemetry/report.h"

namespace shanty {
namespace {

void use_live(const LiveState& live, RunSummary& summary) {
  summary.state = live.state.empty() ? summary.state : live.state;
  summary.text = live.text;
  summary.generation = live.generation;
  if (live.world_size > 0) summary.world_size = live.world_size;
  const JobProgress progress = summarize(live.ranks);
  summary.has_step = progress.has_step;
  summary.step = progress.step;
  summary.total_steps = progress.total_steps;
}

void use_report(const Report& report, RunSummary& summary) {
  summary.state = report.outcome;
  summary.text = report.reason;
  summary.ended_unix_ns = report.ended_unix_ns;
  summary.generation = report.generations;
  if (!summary.has_step && report.has_last_step) {
    summary.has_step = true;
    summary.step = report.last_step;
  }
}

// Nobody lives and there is no report: the events tell an end, or there was none.
void use_events(const RunDir& run, RunSummary& summary) {
  summary.state = "died";
  summary.text = "no end was recorded";
  summary.ended_unix_ns = summary.started_unix_ns;
  for (const Event& event : EventFollower(run).poll()) {
    summary.ended_unix_ns = std::max(summary.ended_unix_ns, event.unix_ns);
    summary.generation = std::max(summary.generation, event.generation);
    if (event.kind != event_kind::kEnded) continue;
    const auto extra = parse_json(event.extra_json);
    const std::string outcome = extra ? json_string(*extra, "outcome") : "";
    if (!outcome.empty()) {
      summary.state = outcome;
      summary.text = json_string(*extra, "reason", event.text);
    }
  }
}

}  // namespace

RunSummary summarize_run(const RunDir& run) {
  RunSummary summary;
  summary.run_id = run.info().run_id;
  summary.job_name = run.info().job_name;
  summary.directory = run.path();
  summary.state = "running";
  summary.started_unix_ns = run.info().started_unix_ns;
  summary.world_size = run.info().world_size();
  const auto live = read_live(run.live_json());
  if (live) use_live(*live, summary);
  const auto report = read_report(run.report_json());
  if (report && report->outcome != "running") {
    use_report(*report, summary);
  } else if (!run.is_running()) {
    use_events(run, summary);
  }
  return summary;
}

}  // namespace shanty
