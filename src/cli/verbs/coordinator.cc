#include <CLI/CLI.hpp>

#include <cstdio>

#include <fmt/format.h>

#include "agent/agent_spec.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "coordinator/coordinator_shell.h"

namespace shanty {
namespace {

int run_coordinator_verb(int argc, char** argv);

}  // namespace

extern const Verb kCoordinatorVerb = {.name = "coordinator",
                                      .summary = "supervise a whole job (started by run)",
                                      .examples = "  shanty coordinator --spec-fd 3",
                                      .hidden = true,
                                      .run = run_coordinator_verb};

namespace {

int run_coordinator_verb(int argc, char** argv) {
  int spec_fd = -1;
  const AppPtr app = make_app(kCoordinatorVerb);
  app->add_option("--spec-fd", spec_fd, "descriptor that holds the coordinator's spec")->required();
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto text = read_spec_descriptor(spec_fd);
  const auto spec =
      text.ok() ? decode_coordinator_spec(*text) : Result<CoordinatorSpec>(text.error());
  if (!spec) {
    fmt::print(stderr, "shanty coordinator: {}\n", spec.error().message);
    return kExitUsage;
  }
  return run_coordinator(*spec);
}

}  // namespace
}  // namespace shanty
