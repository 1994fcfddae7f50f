#include "plan/plan.h"

#include <cstdio>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "plan/report.h"
#include "text/terminal.h"

namespace shanty {
namespace {

int run_plan(int argc, char** argv);

}  // namespace

extern const Verb kPlanVerb = {
    .name = "plan",
    .summary = "print every value that follows from a job file, with its reason",
    .examples =
        "  shanty plan job.yaml          a table to read\n"
        "  shanty plan job.yaml --json   the same for programs",
    .hidden = false,
    .run = run_plan};

namespace {

int run_plan(int argc, char** argv) {
  std::string path;
  bool json = false;
  const AppPtr app = make_app(kPlanVerb);
  app->add_option("job", path, "the job file")->required()->type_name("FILE");
  app->add_flag("--json", json, "print JSON");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto job = load_job_or_report(path);
  if (!job) return kExitUsage;
  const Plan plan = make_plan(*job, read_cluster());
  const TerminalTraits terminal = terminal_traits(STDOUT_FILENO);
  const size_t width = terminal.tty ? static_cast<size_t>(terminal.width) : 0;
  fmt::print("{}",
             json ? plan_json(plan) : plan_table(plan, {.width = width, .color = terminal.colour}));
  return kExitDone;
}

}  // namespace
}  // namespace shanty
