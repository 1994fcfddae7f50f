#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace shanty {

// What the subcommands of `shanty ckpt` were given.
struct CkptArguments {
  std::string path;   // a directory of checkpoints, or one checkpoint
  std::string other;  // diff: the second one; export, import: where to
  std::optional<uint64_t> step;
  bool json = false;
  bool all = false;        // diff: unchanged tensors too; verify: every checkpoint
  bool optimizer = false;  // export
  bool dry_run = false;
  size_t keep = 3;
  size_t keep_best = 0;  // prune: 0 leaves it to the checkpoints
  std::string best = "loss";
  std::string mode = "min";
  int threads = 2;
  std::string format = "safetensors";
  std::string python = "python3";
  bool allow_pickle = false;
};

// Each prints, and returns an exit code; an error is for the caller to print.
Result<int> ckpt_ls(const CkptArguments& arguments);
Result<int> ckpt_show(const CkptArguments& arguments);
Result<int> ckpt_prune(const CkptArguments& arguments);
Result<int> ckpt_verify(const CkptArguments& arguments);
Result<int> ckpt_diff(const CkptArguments& arguments);
Result<int> ckpt_export(const CkptArguments& arguments);
Result<int> ckpt_import(const CkptArguments& arguments);

// The checkpoint that `path` names: itself, or the newest (or that of `step`) in the directory.
Result<std::string> choose_checkpoint(const std::string& path, std::optional<uint64_t> step);

}  // namespace shanty
