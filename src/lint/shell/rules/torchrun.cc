#include <algorithm>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

bool is_this_machine(std::string_view address) {
  return address.starts_with("localhost") || address.starts_with("127.") ||
         address.starts_with("[::1]") || address.starts_with("0.0.0.0");
}

// The number of nodes where it is written in; of "2:4" the least.
std::optional<int> nodes_of(const ShellScript& script, const Launch& launch) {
  const auto nodes = script.option(launch, "nnodes");
  return nodes ? count_in(nodes->value.substr(0, nodes->value.find(':'))) : std::nullopt;
}

// Anything that needs no --node-rank: a rendezvous that deals ranks out, or an agent that knows.
bool is_static(const ShellScript& script, const Launch& launch) {
  const auto backend = script.option(launch, "rdzv-backend");
  return !script.option(launch, "rdzv-endpoint") && (!backend || backend->value == "static");
}

bool is_address(std::string_view text) {
  return std::count(text.begin(), text.end(), '.') == 3 &&
         text.find_first_not_of("0123456789.") == text.npos && !text.starts_with("127.") &&
         text != "0.0.0.0";
}

void add_written_address(ShellScript& script, NodeId node, std::string_view address) {
  script.add("RUN024", Severity::kWarning, node,
             fmt::format("the address {} is written in: a rescheduled pod or another allocation "
                         "has another one",
                         address));
}

void check_meeting(ShellScript& script, const Launch& launch, int nodes) {
  if (const auto standalone = script.option(launch, "standalone")) {
    script.add("RUN029", Severity::kError, standalone->node,
               fmt::format("--standalone with {} nodes: every node trains for itself", nodes));
    return;
  }
  for (const std::string_view name : {"rdzv-endpoint", "master-addr"}) {
    const auto address = script.option(launch, name);
    if (!address) continue;
    const std::string_view host =
        std::string_view(address->value).substr(0, address->value.find(':'));
    if (is_address(host) && !script.value_of("MASTER_ADDR")) {
      add_written_address(script, address->node, host);
    }
    if (!is_this_machine(address->value)) continue;
    script.add("RUN030", Severity::kError, address->node,
               fmt::format("{} is each node itself: the {} nodes do not find each other",
                           address->value, nodes));
  }
}

void check_node_rank(ShellScript& script, const Launch& launch, int nodes) {
  if (!is_static(script, launch)) return;
  const auto rank = script.option(launch, "node-rank");
  if (!rank && !script.mentions("PET_NODE_RANK")) {
    script.add(
        "RUN032", Severity::kWarning, launch.command->word_nodes[launch.word],
        fmt::format("{} nodes and no --node-rank: every node says that it is the first", nodes));
  }
  if (rank && count_in(rank->value)) {
    script.add("RUN032", Severity::kNote, rank->node,
               fmt::format("--node-rank {} is written in: the script differs from node to node",
                           rank->value));
  }
  const auto restarts = script.option(launch, "max-restarts");
  if (restarts && count_in(restarts->value).value_or(0) > 0) {
    script.add("RUN033", Severity::kWarning, restarts->node,
               "with a static rendezvous only the node that failed restarts its processes, and "
               "the others wait for the old ones");
  }
}

bool is_random(std::string_view value) {
  return value.find("RANDOM") != value.npos || value.find("shuf") != value.npos ||
         value.find("socket") != value.npos;
}

void check_port(ShellScript& script) {
  if (script.is_batch() || script.mentions("srun") || script.mentions("sbatch")) return;
  for (const ShellVariable& variable : script.variables()) {
    if (variable.name.find("PORT") == variable.name.npos || !is_random(variable.value)) continue;
    script.add("RUN031", Severity::kWarning, variable.node,
               fmt::format("every node draws its own {}: they do not meet", variable.name));
    return;
  }
}

void check_gpus(ShellScript& script, const Launch& launch) {
  const auto processes = script.option(launch, "nproc-per-node");
  const std::optional<int> count = processes ? count_in(processes->value) : std::nullopt;
  if (!count) return;
  std::optional<std::string> visible = script.value_of("CUDA_VISIBLE_DEVICES");
  for (const ShellVariable& variable : script.variables()) {
    const auto& own = launch.command->assignments;
    if (variable.name == "CUDA_VISIBLE_DEVICES" && variable.literal &&
        std::count(own.begin(), own.end(), variable.node) != 0) {
      visible = variable.value;
    }
  }
  if (!visible || visible->empty() || visible->find_first_not_of("0123456789,") != visible->npos) {
    return;
  }
  const int gpus = 1 + static_cast<int>(std::count(visible->begin(), visible->end(), ','));
  if (*count == gpus) return;
  script.add("RUN034", *count > gpus ? Severity::kError : Severity::kNote, processes->node,
             fmt::format("{} processes and {} GPUs in CUDA_VISIBLE_DEVICES: {}", *count, gpus,
                         *count > gpus ? "the last ones find no device" : "some GPUs stay idle"));
}

void check_address(ShellScript& script) {
  for (const ShellVariable& variable : script.variables()) {
    if (!variable.name.starts_with("MASTER_ADDR") || !is_address(variable.value)) continue;
    add_written_address(script, variable.node, variable.value);
    return;
  }
}

}  // namespace

void check_torchrun(ShellScript& script) {
  check_address(script);
  bool several = false;
  for (const Launch& launch : script.launches()) {
    if (launch.deprecated) {
      script.add("RUN021", Severity::kNote, launch.command->word_nodes[launch.word],
                 "torch.distributed.launch is deprecated: torchrun takes its place, and gives "
                 "LOCAL_RANK in the environment instead of --local_rank");
    }
    if (!launch.torchrun) continue;
    check_gpus(script, launch);
    const std::optional<int> nodes = nodes_of(script, launch);
    if (nodes.value_or(1) < 2) continue;
    several = true;
    check_meeting(script, launch, *nodes);
    check_node_rank(script, launch, *nodes);
  }
  if (several) check_port(script);
}

}  // namespace shanty::lint
