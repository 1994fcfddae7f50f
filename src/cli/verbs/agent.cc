#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "agent/agent_shell.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"
#include "cli/run_arguments.h"
#include "launch/identity.h"
#include "launch/install.h"
#include "launch/run_command.h"
#include "launch/run_config.h"

namespace shanty {
namespace {

int run_agent_verb(int argc, char** argv);

}  // namespace

extern const Verb kAgentVerb = {
    .name = "agent",
    .summary = "run one node of a job inside a pod or a batch job, as the environment names it",
    .examples =
        "  shanty agent --master-addr job-0.job -- /etc/shanty/job.yaml\n"
        "                                     the node that JOB_COMPLETION_INDEX, PET_NODE_RANK,\n"
        "                                     VC_TASK_INDEX, SLURM_NODEID, ... say it is\n"
        "  shanty agent --install /opt/shanty   copies this program there (init containers)",
    .hidden = true,
    .run = run_agent_verb};

namespace {

int fail(int code, const std::string& message) {
  fmt::print(stderr, "shanty agent: {}\n", message);
  return code;
}

// Started by `shanty run` with all it has to know.
int run_with_spec(int argc, char** argv) {
  int spec_fd = -1;
  const AppPtr app = make_app(kAgentVerb);
  app->add_option("--spec-fd", spec_fd, "descriptor that holds the agent's spec")->required();
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto text = read_spec_descriptor(spec_fd);
  const auto spec = text.ok() ? decode_agent_spec(*text) : Result<AgentSpec>(text.error());
  if (!spec) return fail(kExitUsage, spec.error().message);
  return run_agent(*spec);
}

int install(int argc, char** argv) {
  std::string directory;
  const AppPtr app = make_app(kAgentVerb);
  app->add_option("--install", directory, "directory to copy this program to")->required();
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const Status installed = install_program(directory);
  return installed.ok() ? kExitDone : fail(kExitEnvironment, installed.error().message);
}

int run_node(int argc, char** argv) {
  auto read = read_run_arguments(kAgentVerb, argc, argv);
  if (const int* code = std::get_if<int>(&read)) return *code;
  RunOptions& options = std::get<RunOptions>(read);
  options.replaceable = true;
  // Of a pod, whoever asks with `shanty top --on` gets no more than its log.
  options.log_ranks = process_environment()("KUBERNETES_SERVICE_HOST").has_value();
  const Status known = apply_identity(options, process_environment());
  if (!known.ok()) return fail(kExitUsage, known.error().message);
  const auto config = make_run_config(options);
  if (const auto* error = std::get_if<ConfigError>(&config)) {
    return fail(error->exit_code, error->message);
  }
  std::vector<std::string> command = {"shanty"};
  command.insert(command.end(), argv, argv + argc);
  return run_command(std::get<RunConfig>(config), command);
}

int run_agent_verb(int argc, char** argv) {
  const auto first_is = [&](const char* flag) { return argc > 1 && !std::strcmp(argv[1], flag); };
  if (first_is("--spec-fd")) return run_with_spec(argc, argv);
  if (first_is("--install")) return install(argc, argv);
  return run_node(argc, argv);
}

}  // namespace
}  // namespace shanty
