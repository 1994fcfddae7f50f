#include <algorithm>
#include <string>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "text/json_fields.h"
#include "telemetry/run_summary.h"
#include "text/table.h"
#include "text/terminal.h"

namespace shanty {
namespace {

constexpr size_t kShownWithoutAll = 15;

int run_ps(int argc, char** argv);

}  // namespace

extern const Verb kPsVerb = {.name = "ps",
                             .summary = "list the runs of this machine, newest first",
                             .examples =
                                 "  shanty ps              the newest runs and how they stand\n"
                                 "  shanty ps --all --json every run, for a program\n"
                                 "  shanty ps --on kubernetes:lab   the jobs on a cluster",
                             .hidden = false,
                             .run = run_ps};

namespace {

std::string format_step(const RunSummary& run) {
  if (!run.has_step) return "-";
  if (run.total_steps == 0) return fmt::format("{}", run.step);
  return fmt::format("{}/{}", run.step, run.total_steps);
}

std::string format_table_of(const std::vector<RunSummary>& runs, int64_t now_unix_ns) {
  Table table;
  table.header = {"RUN", "JOB", "STATE", "GEN", "RANKS", "STEP", "AGE", "TOOK"};
  table.right_aligned = {false, false, false, true, true, true, true, true};
  for (const RunSummary& run : runs) {
    const int64_t until = run.ended() ? run.ended_unix_ns : now_unix_ns;
    table.rows.push_back({run.run_id, run.job_name, run.state, fmt::format("{}", run.generation),
                          fmt::format("{}", run.world_size), format_step(run),
                          format_duration(ns_to_seconds(now_unix_ns - run.started_unix_ns)),
                          format_duration(ns_to_seconds(until - run.started_unix_ns))});
  }
  return format_table(table);
}

std::string format_json(const std::vector<RunSummary>& runs) {
  nlohmann::json out = nlohmann::json::array();
  for (const RunSummary& run : runs) {
    nlohmann::json one = {{"run_id", run.run_id},
                          {"job", run.job_name},
                          {"directory", run.directory},
                          {"state", run.state},
                          {"text", run.text},
                          {"generation", run.generation},
                          {"world_size", run.world_size},
                          {"started", format_utc(run.started_unix_ns)},
                          {"started_unix_ns", run.started_unix_ns}};
    one["ended_unix_ns"] = run.ended() ? nlohmann::json(run.ended_unix_ns) : nullptr;
    one["step"] = run.has_step ? nlohmann::json(run.step) : nullptr;
    one["total_steps"] = run.total_steps > 0 ? nlohmann::json(run.total_steps) : nullptr;
    out.push_back(std::move(one));
  }
  return print_json_pretty(out);
}

int run_ps(int argc, char** argv) {
  if (asks_for_cluster(argc, argv)) return ps_on(kPsVerb, argc, argv);
  bool json = false;
  bool all = false;
  const AppPtr app = make_app(kPsVerb);
  app->add_flag("--json", json, "a JSON array with everything known of each run");
  app->add_flag("--all", all, "every run, not only the newest");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;

  const std::vector<RunDir> dirs = list_runs(default_state_dir());
  const size_t shown = all ? dirs.size() : std::min(dirs.size(), kShownWithoutAll);
  std::vector<RunSummary> runs;
  for (size_t i = 0; i < shown; ++i) runs.push_back(summarize_run(dirs[i]));

  Output output;
  if (json) {
    output.write(STDOUT_FILENO, format_json(runs));
  } else if (runs.empty()) {
    output.write(STDERR_FILENO, "there are no runs in " + runs_dir(default_state_dir()) + "\n");
  } else {
    output.write(STDOUT_FILENO, format_table_of(runs, system_clock().unix_time_ns()));
    if (shown < dirs.size()) {
      output.write(STDERR_FILENO,
                   fmt::format("{} older runs are listed by --all\n", dirs.size() - shown));
    }
  }
  return kExitDone;
}

}  // namespace
}  // namespace shanty
