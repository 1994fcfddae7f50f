#include <CLI/CLI.hpp>

#include <cstdio>

#include <fmt/format.h>

#include "cli/ckpt_verbs.h"
#include "cli/cli_app.h"
#include "cli/exit_codes.h"

namespace shanty {
namespace {

int run_ckpt(int argc, char** argv);

}  // namespace

extern const Verb kCkptVerb = {
    .name = "ckpt",
    .summary = "list, verify, compare, convert and prune checkpoints",
    .examples =
        "  shanty ckpt ls /mnt/ckpt                     what is there, newest first\n"
        "  shanty ckpt verify /mnt/ckpt --all           read every byte of every one\n"
        "  shanty ckpt diff /mnt/ckpt/step-A /mnt/ckpt/step-B\n"
        "  shanty ckpt export /mnt/ckpt model.safetensors\n"
        "  shanty ckpt prune /mnt/ckpt --keep 3 --dry-run",
    .hidden = false,
    .run = run_ckpt};

namespace {

using Function = Result<int> (*)(const CkptArguments&);

struct Subcommand {
  const char* name;
  const char* summary;
  Function run;
};

constexpr Subcommand kSubcommands[] = {
    {"ls", "each checkpoint with step, age, world, size and state", ckpt_ls},
    {"show", "one checkpoint's tensors and state", ckpt_show},
    {"verify", "read all bytes and check them", ckpt_verify},
    {"diff", "which tensors changed, and by how much", ckpt_diff},
    {"export", "to one .safetensors file, a torch.save file or a DCP directory", ckpt_export},
    {"import", "from a torch.save file, a DCP directory or .safetensors", ckpt_import},
    {"prune", "remove old ones, never the newest that is whole", ckpt_prune},
};

void add_options(CLI::App& app, const std::string& name, CkptArguments& arguments) {
  const bool imports = name == "import";
  app.add_option("path", arguments.path,
                 imports ? "what to import" : "a directory of checkpoints, or one of them")
      ->required();
  if (name == "diff") app.add_option("other", arguments.other, "the second one")->required();
  if (name == "export")
    app.add_option("to", arguments.other, "a new file or directory")->required();
  if (imports) app.add_option("to", arguments.other, "the directory of checkpoints")->required();
  if (name == "show" || name == "verify" || name == "export" || imports) {
    app.add_option(
        "--step", arguments.step,
        imports ? "the step it is of (default: as it says, or 0)" : "that step, not the newest");
  }
  if (name == "verify") app.add_flag("--all", arguments.all, "every checkpoint");
  if (name == "diff") app.add_flag("--all", arguments.all, "unchanged tensors too");
  if (name == "export") {
    app.add_option("--format", arguments.format, "safetensors, torch or dcp")
        ->check(CLI::IsMember({"safetensors", "torch", "dcp"}));
    app.add_flag("--optimizer", arguments.optimizer, "the optimizer's tensors too");
  }
  if (name == "export" || imports) {
    app.add_option("--python", arguments.python, "the Python that has torch (default python3)");
  }
  if (imports) {
    app.add_flag("--allow-pickle", arguments.allow_pickle,
                 "let the file run code of its own: only for files you trust");
  }
  if (name == "prune") {
    app.add_option("--keep", arguments.keep, "how many of the newest stay (default 3)")
        ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
    app.add_option("--keep-best", arguments.keep_best,
                   "how many of the best stay (default: as the newest checkpoint says)")
        ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
    app.add_option("--best", arguments.best, "the metric they are the best by (default loss)");
    app.add_option("--mode", arguments.mode, "min or max: which of its values are best")
        ->check(CLI::IsMember({"min", "max"}));
    app.add_flag("--dry-run", arguments.dry_run, "say what would be removed");
  }
  app.add_option("--threads", arguments.threads, "that read at once (default 2)")
      ->check(CLI::Range(1, 256));
  app.add_flag("--json", arguments.json, "for a program");
}

int run_ckpt(int argc, char** argv) {
  CkptArguments arguments;
  const AppPtr app = make_app(kCkptVerb);
  app->require_subcommand(1);
  Function chosen = nullptr;
  for (const Subcommand& subcommand : kSubcommands) {
    CLI::App* sub = app->add_subcommand(subcommand.name, subcommand.summary);
    add_options(*sub, subcommand.name, arguments);
    sub->callback([&chosen, run = subcommand.run] { chosen = run; });
  }
  if (const auto code = parse_arguments(*app, argc, argv)) return *code;
  const auto code = chosen(arguments);
  if (code) return *code;
  fmt::print(stderr, "shanty ckpt: {}\n", code.error().message);
  return kExitEnvironment;
}

}  // namespace
}  // namespace shanty
