#include <CLI/CLI.hpp>

#include <cstdio>

#include <fmt/format.h>

#include "agent/agent_shell.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"

namespace shanty {
namespace {

int run_agent_verb(int argc, char** argv);

}  // namespace

extern const Verb kAgentVerb = {.name = "agent",
                                .summary = "supervise one node of a job (started by run)",
                                .examples = "  shanty agent --spec-fd 3",
                                .hidden = true,
                                .run = run_agent_verb};

namespace {

int run_agent_verb(int argc, char** argv) {
  int spec_fd = -1;
  const AppPtr app = make_app(kAgentVerb);
  app->add_option("--spec-fd", spec_fd, "descriptor that holds the agent's spec")->required();
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto text = read_spec_descriptor(spec_fd);
  const auto spec = text.ok() ? decode_agent_spec(*text) : Result<AgentSpec>(text.error());
  if (!spec) {
    fmt::print(stderr, "shanty agent: {}\n", spec.error().message);
    return kExitUsage;
  }
  return run_agent(*spec);
}

}  // namespace
}  // namespace shanty
