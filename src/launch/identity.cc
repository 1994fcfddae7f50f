#include "launch/identity.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

namespace shanty {
namespace {

struct Source {
  const char* rank;    // of the node, from 0
  const char* nodes;   // how many; "" = not told
  const char* master;  // the address of node 0; "" = not told
  const char* who;
};

// A variable that only one system sets stands before one that several do. RANK and WORLD_SIZE count
// pods under the Training Operator and Volcano, not processes.
constexpr Source kSources[] = {
    {"SHANTY_NODE_RANK", "SHANTY_NODES", "SHANTY_MASTER_ADDR", "the environment"},
    {"PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR", "Kubeflow"},
    {"VC_TASK_INDEX", "", "", "Volcano"},
    {"LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS", "a LeaderWorkerSet"},
    {"JOB_COMPLETION_INDEX", "", "", "an indexed Job"},
    {"SLURM_NODEID", "SLURM_NNODES", "", "Slurm"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "", "Open MPI"},
    {"PMI_RANK", "PMI_SIZE", "", "MPI"},
    {"RANK", "", "MASTER_ADDR", "the environment"},
};

Result<int> read_count(const std::string& name, const std::string& text, const Source& source) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Error{fmt::format("{}={}, set by {}, is not a number of nodes", name, text, source.who)};
  }
  return value;
}

// "4:4", as Kubeflow writes an elastic number of nodes that is not elastic.
std::string upper_end(const std::string& text) { return text.substr(text.find(':') + 1); }

}  // namespace

Result<std::optional<NodeIdentity>> find_identity(const EnvLookup& env) {
  for (const Source& source : kSources) {
    const auto rank = env(source.rank);
    if (!rank) continue;
    NodeIdentity found;
    found.node_rank = TRY(read_count(source.rank, *rank, source));
    if (const auto nodes = env(source.nodes)) {
      found.nodes = TRY(read_count(source.nodes, upper_end(*nodes), source));
    }
    found.master_addr = env(source.master).value_or("");
    found.told_by = fmt::format("{} of {}", source.rank, source.who);
    return std::optional(found);
  }
  return std::optional<NodeIdentity>();
}

Status apply_identity(RunOptions& options, const EnvLookup& env) {
  const auto identity = TRY(find_identity(env));
  if (!identity) return {};
  if (!options.node_rank) options.node_rank = identity->node_rank;
  if (options.nnodes.empty() && identity->nodes) options.nnodes = std::to_string(*identity->nodes);
  if (options.master_addr.empty() && options.rdzv_endpoint.empty()) {
    options.master_addr = identity->master_addr;
  }
  return {};
}

EnvLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

}  // namespace shanty
