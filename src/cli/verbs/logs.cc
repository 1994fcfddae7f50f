#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <re2/re2.h>

#include "base/clock.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/on/on.h"
#include "cli/output.h"
#include "cli/rank_list.h"
#include "cli/run_choice.h"
#include "os/process.h"
#include "run/log_view.h"
#include "run/log_watch.h"
#include "text/json_fields.h"
#include "text/terminal.h"

namespace shanty {
namespace {

constexpr Duration kLookAgain = std::chrono::milliseconds(500);
constexpr Duration kLookAgainWhileHolding = std::chrono::milliseconds(50);

struct LogsOptions {
  std::string run;
  std::vector<std::string> ranks;
  uint64_t generation = 0;
  bool follow = false;
  std::string grep;
  std::string stream;
  uint64_t tail = 0;
  bool json = false;
};

int run_logs(int argc, char** argv);

}  // namespace

extern const Verb kLogsVerb = {
    .name = "logs",
    .summary = "show what the ranks of a run printed, merged by time",
    .examples =
        "  shanty logs -f                      follow the newest run\n"
        "  shanty logs --rank 0,4-7 --tail 20  the last lines of some ranks\n"
        "  shanty logs train --grep 'Error|nan' --stream err\n"
        "  shanty logs -f train --on kubernetes   of a job on a cluster",
    .hidden = false,
    .run = run_logs};

namespace {

void add_options(CLI::App& app, LogsOptions& options) {
  add_run_argument(app, options.run);
  app.add_option("--rank", options.ranks, "only these ranks, as in 0,3-5")->allow_extra_args(false);
  app.add_option("--generation", options.generation, "only this generation (default: all)");
  app.add_flag("-f,--follow", options.follow, "go on until the run ends");
  app.add_option("--grep", options.grep, "only lines in which this RE2 expression matches");
  app.add_option("--stream", options.stream, "only stdout (out) or stderr (err)")
      ->check(CLI::IsMember({"out", "err"}));
  app.add_option("--tail", options.tail, "start with the last so many lines");
  app.add_flag("--json", options.json, "one JSON object a line of a rank");
}

std::optional<std::vector<int>> wanted_ranks(const LogsOptions& options) {
  std::vector<int> ranks;
  for (const std::string& text : options.ranks) {
    const auto some = parse_rank_list(text);
    if (!some) {
      fmt::print(stderr, "shanty logs: --rank: {}\n", some.error().message);
      return std::nullopt;
    }
    ranks.insert(ranks.end(), some->begin(), some->end());
  }
  return ranks;
}

std::optional<LogStream> wanted_stream(const LogsOptions& options) {
  if (options.stream.empty()) return std::nullopt;
  return options.stream == "err" ? LogStream::kStderr : LogStream::kStdout;
}

std::string json_line(const MergedLine& line) {
  nlohmann::json out = {{"time", format_utc(line.unix_ns)},
                        {"unix_ns", line.unix_ns},
                        {"generation", line.generation},
                        {"rank", line.ranks.front()},
                        {"stream", line.stream == LogStream::kStderr ? "err" : "out"},
                        {"line", line.text}};
  if (line.continues) out["continues"] = true;
  return print_json(out) + "\n";
}

// Drives a LogView or LogMerge to the end of what there is, or of the run.
template <typename Reader>
void read_out(Reader& reader, const RunDir& run, bool follow, Output& output) {
  const auto watch = follow ? watch_logs(run) : nullptr;
  while (follow && run.is_running()) {
    while (reader.poll() && !output.reader_gone()) {
    }
    if (output.reader_gone()) return;
    watch->wait(reader.holds_lines() ? kLookAgainWhileHolding : kLookAgain);
  }
  // Without following, the merge reads what was there when it looked first.
  while (reader.poll() && !output.reader_gone()) {
  }
  if (!output.reader_gone()) reader.finish();
}

int print_text(const RunDir& run, const LogsOptions& options, LogViewOptions view, Output& output) {
  const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
  view.terminal = traits.tty;
  view.colour = traits.colour;
  LogView reader(
      run, std::move(view), system_clock(), [&output](LogStream stream, std::string_view bytes) {
        output.write(stream == LogStream::kStderr ? STDERR_FILENO : STDOUT_FILENO, bytes);
      });
  read_out(reader, run, options.follow, output);
  return kExitDone;
}

int print_json_lines(const RunDir& run, const LogsOptions& options, const LogViewOptions& view,
                     Output& output) {
  LogMergeOptions merge = view.merge;
  merge.fold = false;
  merge.tail_lines = view.keep || view.only_stream ? 0 : view.tail_lines;
  const auto emit = [&](const MergedLine& line) {
    if (view.only_stream && line.stream != *view.only_stream) return;
    if (view.keep && !view.keep(line.text)) return;
    output.write(STDOUT_FILENO, json_line(line));
  };
  LogMerge reader(run, merge, system_clock(), emit, nullptr);
  read_out(reader, run, options.follow, output);
  return kExitDone;
}

int run_logs(int argc, char** argv) {
  if (asks_for_cluster(argc, argv)) return logs_on(kLogsVerb, argc, argv);
  LogsOptions options;
  const AppPtr app = make_app(kLogsVerb);
  add_options(*app, options);
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto ranks = wanted_ranks(options);
  if (!ranks) return kExitUsage;
  const auto expression = std::make_shared<RE2>(options.grep, RE2::Quiet);
  if (!expression->ok()) {
    fmt::print(stderr, "shanty logs: --grep: {}\n", expression->error());
    return kExitUsage;
  }
  const auto run = choose_run("logs", options.run);
  if (!run) return kExitUsage;

  raise_descriptor_limit();  // each open log takes two
  LogViewOptions view;
  view.merge.ranks = *ranks;
  view.merge.generation = options.generation;
  view.merge.follow = options.follow;
  view.only_stream = wanted_stream(options);
  view.tail_lines = options.tail;
  if (!options.grep.empty()) {
    view.keep = [expression](std::string_view line) {
      return RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *expression);
    };
  }
  Output output;
  return options.json ? print_json_lines(*run, options, view, output)
                      : print_text(*run, options, std::move(view), output);
}

}  // namespace
}  // namespace shanty
