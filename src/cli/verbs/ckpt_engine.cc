#include <CLI/CLI.hpp>

#include "ckpt/engine.h"
#include "cli/cli_app.h"

namespace shanty {
namespace {

int run_ckpt_engine_verb(int argc, char** argv);

}  // namespace

extern const Verb kCkptEngineVerb = {
    .name = "ckpt-engine",
    .summary = "write and read the checkpoints of a node's ranks (started by them)",
    .examples = "  shanty ckpt-engine --listen-fd 3 --parent-pid 4711",
    .hidden = true,
    .run = run_ckpt_engine_verb};

namespace {

int run_ckpt_engine_verb(int argc, char** argv) {
  ckpt::EngineOptions options;
  const AppPtr app = make_app(kCkptEngineVerb);
  app->add_option("--listen-fd", options.listen_fd, "descriptor of a listening Unix socket")
      ->required();
  app->add_option("--parent-pid", options.parent_pid, "the process to end after")->required();
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  return ckpt::run_engine(options);
}

}  // namespace
}  // namespace shanty
