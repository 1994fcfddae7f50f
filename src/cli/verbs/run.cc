#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/on/on.h"
#include "cli/run_arguments.h"
#include "cli/verb.h"
#include "launch/run_command.h"
#include "launch/run_config.h"

namespace shanty {
namespace {

int run_run(int argc, char** argv);

}  // namespace

extern const Verb kRunVerb = {
    .name = "run",
    .summary =
        "run a job here, in torchrun's place, or on a cluster; follow it and keep it running",
    .examples =
        "  shanty run --nproc-per-node 8 train.py --lr 0.1   one node, eight ranks\n"
        "  shanty run job.yaml                               what a job file says\n"
        "  shanty run --nnodes 2 --rdzv-endpoint node0:29400 --nproc-per-node 8 train.py\n"
        "                                                    the same command on each node\n"
        "  shanty run job.yaml --on kubernetes               on a cluster; with --help more of it",
    .hidden = false,
    .run = run_run};

namespace {

int run_run(int argc, char** argv) {
  if (runs_on_cluster(argc, argv)) return run_on(kRunVerb, argc, argv);
  const auto options = read_run_arguments(kRunVerb, argc, argv);
  if (const int* code = std::get_if<int>(&options)) return *code;
  const auto config = make_run_config(std::get<RunOptions>(options));
  if (const auto* error = std::get_if<ConfigError>(&config)) {
    fmt::print(stderr, "shanty run: {}\n", error->message);
    return error->exit_code;
  }
  std::vector<std::string> command = {"shanty"};
  command.insert(command.end(), argv, argv + argc);
  return run_command(std::get<RunConfig>(config), command);
}

}  // namespace
}  // namespace shanty
