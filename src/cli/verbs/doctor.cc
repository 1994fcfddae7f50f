#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/clock.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "doctor/diagnose.h"
#include "doctor/verdict_text.h"
#include "run/run_dir.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty {
namespace {

struct DoctorOptions {
  std::vector<std::string> paths;
  bool json = false;
  std::string format = "text";
  bool redact = false;
};

int run_doctor(int argc, char** argv);

}  // namespace

extern const Verb kDoctorVerb = {
    .name = "doctor",
    .summary = "say why a job hung, crashed or crawls: rank, node, evidence",
    .examples =
        "  shanty doctor logs/                     every log of a job, in any layout\n"
        "  shanty doctor train                     a run by its name: one that hangs now, too\n"
        "  kubectl logs -l job=train --prefix --tail=-1 | shanty doctor -\n"
        "  shanty doctor logs.tar.zst pods.yaml dmesg.txt --format markdown --redact",
    .hidden = false,
    .run = run_doctor};

namespace {

// What is no path may be the name of a run.
Result<std::string> resolve(const std::string& path) {
  if (path == "-" || ::access(path.c_str(), F_OK) == 0) return path;
  const auto run = find_run(default_state_dir(), path);
  if (!run || path.find('/') != std::string::npos) {
    return Error{fmt::format("{}: there is no such file, directory or run", path)};
  }
  return run->path();
}

std::string render(const Diagnosis& diagnosis, const DoctorOptions& options) {
  if (options.json || options.format == "json") return verdict_json(diagnosis);
  if (options.format == "markdown") return verdict_markdown(diagnosis);
  if (options.format == "html") return verdict_html(diagnosis);
  const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
  return verdict_text(diagnosis, {.color = traits.colour,
                                  .width = traits.tty ? static_cast<size_t>(traits.width) : 0});
}

int run_doctor(int argc, char** argv) {
  DoctorOptions options;
  const AppPtr app = make_app(kDoctorVerb);
  app->add_option("path", options.paths,
                  "logs, directories, archives, run directories, \"-\" for standard input")
      ->required();
  app->add_flag("--json", options.json, "for programs; the same as --format json");
  app->add_option("--format", options.format, "text, json, markdown or html")
      ->check(CLI::IsMember({"text", "json", "markdown", "html"}));
  app->add_flag("--redact", options.redact,
                "replace names of nodes and pods, addresses and secrets, to show it to others");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;

  for (std::string& path : options.paths) {
    auto resolved = resolve(path);
    if (!resolved) {
      fmt::print(stderr, "shanty doctor: {}\n", resolved.error().message);
      return kExitEnvironment;
    }
    path = std::move(*resolved);
  }
  const auto files = gather_case(options.paths);
  if (!files) {
    fmt::print(stderr, "shanty doctor: {}\n", files.error().message);
    return kExitEnvironment;
  }
  Diagnosis diagnosis =
      diagnose(*files, {.now_unix_ns = system_clock().unix_time_ns(),
                        .wait = [](Duration time) { std::this_thread::sleep_for(time); }});
  diagnosis.notes.insert(diagnosis.notes.begin(), files->notes.begin(), files->notes.end());
  if (options.redact) diagnosis = redacted(diagnosis);
  Output().write(STDOUT_FILENO, render(diagnosis, options));
  for (const std::string& note : diagnosis.notes) {
    fmt::print(stderr, "shanty doctor: note: {}\n", printable(note));
  }
  const bool problems =
      std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                  [](const Finding& finding) { return finding.severity != Severity::kNote; });
  return problems ? kExitProblems : kExitDone;
}

}  // namespace
}  // namespace shanty
