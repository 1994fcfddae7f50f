#include "launch/run_command.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/random.h"
#include "cluster/cluster.h"
#include "job/parse.h"
#include "launch/display.h"
#include "launch/embedded_python.h"
#include "launch/supervisor.h"
#include "net/token.h"
#include "os/files.h"
#include "os/process.h"
#include "plan/plan.h"
#include "plan/report.h"
#include "run/events.h"
#include "run/run_dir.h"
#include "telemetry/report.h"
#include "telemetry/report_text.h"
#include "text/terminal.h"

namespace shanty {
namespace {

// What shells say of a command that SIGTERM ended: whoever replaces nodes takes 128 and above as
// "start another", and 1 as "the job has failed".
constexpr int kExitStopped = 128 + SIGTERM;
constexpr Duration kDisplayLimit = std::chrono::seconds(10);

std::string current_directory() {
  char buffer[4096];
  return ::getcwd(buffer, sizeof buffer) != nullptr ? buffer : "";
}

uint64_t random_word() {
  uint64_t word = 0;
  const std::string bytes = secure_random_bytes(sizeof word);
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

// Commands of one job that were given the same --run-dir must find the same run in it: by the place
// where they meet, or by --rdzv-id, where that place may move from start to start.
std::string choose_run_id(const RunConfig& config, int64_t now_unix_ns) {
  if (config.several_machines && !config.run_dir.empty()) {
    const std::string place = config.elastic_run_id == "none"
                                  ? net::join_host_port(config.endpoint.host, config.endpoint.port)
                                  : std::string();
    const std::string key = place + " " + config.elastic_run_id + " " + config.run_dir;
    return config.job.name + "-" + hex(sha256(key)).substr(0, 8);
  }
  return make_run_id(config.job.name, now_unix_ns, random_word());
}

// So that `ps` and friends find a run that lies elsewhere. Best effort.
void link_from_state_dir(const RunDir& run) {
  const std::string runs = runs_dir(default_state_dir());
  std::error_code error;
  const auto target = std::filesystem::canonical(run.path(), error);
  if (error || !make_directories(runs).ok()) return;
  std::filesystem::create_directory_symlink(target, runs + "/" + run.info().run_id, error);
}

Result<RunDir> create_run(const RunConfig& config, const std::vector<std::string>& argv) {
  const int64_t now = system_clock().unix_time_ns();
  const RunInfo info{.run_id = choose_run_id(config, now),
                     .job_name = config.job.name,
                     .command = argv,
                     .working_directory = current_directory(),
                     .host = host_name(),
                     .nodes = config.nodes,
                     .slots = config.slots,
                     .started_unix_ns = now};
  const std::string parent =
      config.log_dir.empty() ? runs_dir(default_state_dir()) : config.log_dir;
  const std::string path = config.run_dir.empty() ? parent + "/" + info.run_id : config.run_dir;
  RunDir run = TRY(RunDir::create(path, info));
  const Plan plan = make_plan(config.job, read_cluster());
  TRY_STATUS(write_file_atomically(run.job_json(), serialize_job(config.job)));
  TRY_STATUS(write_file_atomically(run.plan_json(), plan_json(plan)));
  if (!config.run_dir.empty() || !config.log_dir.empty()) link_from_state_dir(run);
  return run;
}

Result<std::string> make_token(const RunConfig& config) {
  if (!config.several_machines) return hex(secure_random_bytes(32));
  return net::job_token(token_query(config));
}

void announce(const RunConfig& config, const RunDir& run) {
  if (config.quiet || config.json) return;
  fmt::print(stderr, "shanty {}  run {}: {} node{} x {} rank{}, everything is in {}\n",
             format_local_time_of_day(run.info().started_unix_ns), run.info().run_id, config.nodes,
             config.nodes == 1 ? "" : "s", config.slots, config.slots == 1 ? "" : "s", run.path());
}

// The coordinator of a node that leaves is killed, maybe between its last word and its report.
Status keep_report(const RunDir& run, const Report& report) {
  const bool is_over = report.outcome != "running" && report.outcome != "died";
  if (!is_over || file_exists(run.report_json())) return {};
  return write_report(run.report_json(), report);
}

void tell_report(const RunConfig& config, const RunDir& run) {
  const Report report = build_report(run, system_clock().unix_time_ns());
  const Status kept = keep_report(run, report);
  if (!kept.ok()) fmt::print(stderr, "shanty: {}\n", kept.error().message);
  if (config.quiet || config.json) return;
  const TerminalTraits traits = terminal_traits(STDERR_FILENO);
  fmt::print(
      stderr, "\n{}",
      render_report(report, {.width = traits.width, .colour = traits.colour, .utf8 = traits.utf8}));
}

// Of a job whose coordinator, and so its report, is on another machine.
void print_goodbye(const RunConfig& config, const RunDir& run) {
  if (config.quiet || config.json) return;
  std::string reason;
  for (const Event& event : EventFollower(run).poll()) {
    if (event.kind == event_kind::kAgentLeft && event.source != "coordinator") reason = event.text;
  }
  if (reason.empty()) return;
  fmt::print(stderr, "\nthis node's part is over: {}\nthe report is on the machine of {}\n", reason,
             net::join_host_port(config.endpoint.host, config.endpoint.port));
}

int fail(const Error& error) {
  fmt::print(stderr, "shanty: {}\n", error.message);
  return 3;
}

}  // namespace

int run_command(const RunConfig& config, const std::vector<std::string>& argv) {
  raise_descriptor_limit();
  const auto run = create_run(config, argv);
  if (!run) return fail(run.error());
  const auto lock = SharedLock::take(run->lock());
  if (!lock) return fail(lock.error());
  if (config.hooks) {
    const Status unpacked = unpack_python(run->python_dir());
    if (!unpacked.ok()) return fail(unpacked.error());
  }
  const auto token = make_token(config);
  if (!token) return fail(token.error());

  announce(config, *run);
  Supervisor supervisor(config, *run, *token);
  Display display(config, *run);
  const auto result = supervisor.run();
  display.finish(kDisplayLimit);
  if (!result) return fail(result.error());
  result->hosted ? tell_report(config, *run) : print_goodbye(config, *run);
  const bool left = config.replaceable && result->was_stopped && result->exit_code != 0;
  return left ? kExitStopped : result->exit_code;
}

}  // namespace shanty
