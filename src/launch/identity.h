#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "launch/run_options.h"

namespace shanty {

// Which node of its job this process is, as the system that started it says in its environment.
struct NodeIdentity {
  int node_rank = 0;
  std::optional<int> nodes;
  std::string master_addr;  // "" = not told
  std::string told_by;      // "JOB_COMPLETION_INDEX of an indexed Job"
};

// An environment variable, or nothing.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Asks the variables of SHANTY_NODE_RANK, Kubeflow, Volcano, LeaderWorkerSet, indexed Jobs, Slurm
// and MPI, in this order; nothing when none of them is set. Errors: a value that is no node rank.
Result<std::optional<NodeIdentity>> find_identity(const EnvLookup& env);

// Puts what find_identity says where the options say nothing. Errors: as there.
Status apply_identity(RunOptions& options, const EnvLookup& env);

EnvLookup process_environment();

}  // namespace shanty
