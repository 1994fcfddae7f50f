#include <string>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/run_choice.h"
#include "telemetry/report.h"
#include "telemetry/report_text.h"
#include "text/terminal.h"

namespace shanty {
namespace {

int run_report(int argc, char** argv);

}  // namespace

extern const Verb kReportVerb = {
    .name = "report",
    .summary = "tell what a run did, what failed and where its time went",
    .examples =
        "  shanty report                  the newest run, also while it runs\n"
        "  shanty report train --json     the newest run of the job \"train\", for a program",
    .hidden = false,
    .run = run_report};

namespace {

int run_report(int argc, char** argv) {
  std::string spec;
  bool json = false;
  const AppPtr app = make_app(kReportVerb);
  add_run_argument(*app, spec);
  app->add_flag("--json", json, "as in report.json");
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;

  const auto run = choose_run("report", spec);
  if (!run) return kExitUsage;
  const Report report = build_report(*run, system_clock().unix_time_ns());
  const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
  Output().write(STDOUT_FILENO, json ? encode_report(report)
                                     : render_report(report, {.width = traits.width,
                                                              .colour = traits.colour,
                                                              .utf8 = traits.utf8}));
  return kExitDone;
}

}  // namespace
}  // namespace shanty
