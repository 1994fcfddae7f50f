#include <algorithm>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

bool is_this_machine(std::string_view address) {
  return address.starts_with("localhost") || address.starts_with("127.") ||
         address.starts_with("[::1]") || address.starts_with("0.0.0.0");
}

// What a launcher calls these, with dashes.
struct OptionNames {
  std::string_view nodes, node_rank, master;
};
OptionNames names_of(LaunchedBy by) {
  if (by == LaunchedBy::kAccelerate) return {"num-machines", "machine-rank", "main-process-ip"};
  if (by == LaunchedBy::kDeepspeed) return {"num-nodes", "node-rank", "master-addr"};
  return {"nnodes", "node-rank", "master-addr"};
}

// The number of nodes where it is written in; of "2:4" the least.
std::optional<int> nodes_of(const ShellScript& script, const Launch& launch) {
  const auto nodes = script.option(launch, names_of(launch.by).nodes);
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

// "${ARGS[@]}" that could not be followed: any option may be in it.
bool hides_options(const Launch& launch) {
  const std::vector<std::string>& words = launch.command->words;
  for (size_t i = launch.word + 1; i < words.size() && !words[i].ends_with(".py"); ++i) {
    if (words[i].starts_with('$') && !words[i - 1].starts_with('-')) return true;
  }
  return false;
}

void add_written_address(ShellScript& script, NodeId node, std::string_view address) {
  script.add("RUN024", Severity::kWarning, node,
             fmt::format("the address {} is written in: a rescheduled pod or another allocation "
                         "has another one",
                         address));
}

// --standalone takes the place of all that says where to meet.
void check_standalone(ShellScript& script, const Launch& launch) {
  const auto standalone = script.option(launch, "standalone");
  if (!standalone || launch.by != LaunchedBy::kTorchrun || nodes_of(script, launch)) return;
  const auto nodes = script.option(launch, "nnodes");
  const auto master = script.option(launch, "master-addr");
  if (!nodes || !master || is_this_machine(master->value)) return;
  script.add("RUN029", Severity::kWarning, standalone->node,
             "with --standalone nobody looks at --master-addr: with several nodes, every node "
             "trains for itself");
}

// c10d and etcd meet at --rdzv-endpoint, and at localhost without one.
void check_endpoint(ShellScript& script, const Launch& launch, const std::string& nodes) {
  const auto backend = script.option(launch, "rdzv-backend");
  if (launch.by != LaunchedBy::kTorchrun || !backend || backend->value != "c10d" ||
      script.option(launch, "rdzv-endpoint") || script.mentions("PET_RDZV_ENDPOINT") ||
      script.option(launch, "standalone")) {
    return;
  }
  const bool has_master = script.option(launch, "master-addr").has_value();
  script.add("RUN030", count_in(nodes) ? Severity::kError : Severity::kWarning, backend->node,
             fmt::format("c10d without --rdzv-endpoint meets at localhost{}: the nodes do not find "
                         "each other",
                         has_master ? ", whatever --master-addr says" : ""));
}

void check_meeting(ShellScript& script, const Launch& launch, int nodes) {
  if (const auto standalone = script.option(launch, "standalone")) {
    script.add("RUN029", Severity::kError, standalone->node,
               fmt::format("--standalone with {} nodes: every node trains for itself", nodes));
    return;
  }
  for (const std::string_view name :
       {std::string_view("rdzv-endpoint"), names_of(launch.by).master}) {
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

// Only torchrun's own options and PET_MASTER_ADDR say where a static rendezvous meets: it does not
// read MASTER_ADDR.
void check_no_master(ShellScript& script, const Launch& launch) {
  const bool sets_variable =
      std::any_of(script.variables().begin(), script.variables().end(),
                  [](const ShellVariable& variable) { return variable.name == "MASTER_ADDR"; });
  if (launch.by != LaunchedBy::kTorchrun || !sets_variable || !is_static(script, launch) ||
      script.option(launch, "master-addr") || script.option(launch, "standalone") ||
      script.mentions("PET_MASTER_ADDR") || hides_options(launch)) {
    return;
  }
  script.add("RUN030", Severity::kError, launch.command->word_nodes[launch.word],
             "torchrun is told several nodes and no --master-addr: it does not read MASTER_ADDR, "
             "and each node meets itself at 127.0.0.1");
}

// The nodes are counted by whoever calls the script, and the master is each of them.
void check_local_master(ShellScript& script, const Launch& launch) {
  const OptionNames names = names_of(launch.by);
  const auto nodes = script.option(launch, names.nodes);
  const auto rank = script.option(launch, names.node_rank);
  const auto master = script.option(launch, names.master);
  const bool is_counted = nodes && nodes->value.starts_with('$') && rank &&
                          rank->value.starts_with('$') &&
                          nodes->value.find(":-") == std::string::npos;
  if (!is_counted || !master || !is_this_machine(master->value)) return;
  script.add("RUN030", Severity::kWarning, master->node,
             fmt::format("{} is each node itself: with more than one node they do not find each "
                         "other",
                         master->value));
}

// DeepSpeed starts the other nodes by itself, and a file or the environment may tell the rank.
bool gets_rank_elsewhere(const ShellScript& script, const Launch& launch) {
  if (launch.by == LaunchedBy::kDeepspeed || script.mentions("PET_NODE_RANK")) return true;
  return launch.by == LaunchedBy::kAccelerate &&
         (script.option(launch, "config-file") || script.option(launch, "deepspeed-hostfile"));
}

void check_node_rank(ShellScript& script, const Launch& launch, int nodes) {
  if (!is_static(script, launch)) return;
  const std::string_view name = names_of(launch.by).node_rank;
  const auto rank = script.option(launch, name);
  if (!rank && !gets_rank_elsewhere(script, launch)) {
    script.add(
        "RUN032", Severity::kWarning, launch.command->word_nodes[launch.word],
        fmt::format("{} nodes and no --{}: every node says that it is the first", nodes, name));
  }
  if (rank && count_in(rank->value)) {
    script.add("RUN032", Severity::kNote, rank->node,
               fmt::format("--{} {} is written in: the script differs from node to node", name,
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

// One shell gives all nodes their command lines.
bool runs_once(const ShellScript& script) {
  return script.is_batch() || script.mentions("srun") || script.mentions("sbatch");
}

void check_rendezvous_id(ShellScript& script, const Launch& launch) {
  if (runs_once(script)) return;
  const auto id = script.option(launch, "rdzv-id");
  if (!id || !(is_random(id->value) || id->value == "$$" || id->value.starts_with("$(date"))) {
    return;
  }
  script.add("RUN031", Severity::kWarning, id->node,
             fmt::format("--rdzv-id {} is another one on every node: they do not meet", id->value));
}

// --master_port=${MASTER_PORT:-$((RANDOM % 20000 + 20000))}
void check_drawn_port(ShellScript& script, const Launch& launch) {
  const OptionNames names = names_of(launch.by);
  const auto rank = script.option(launch, names.node_rank);
  const auto port = script.option(launch, "master-port");
  if (runs_once(script) || !rank || !port || !is_random(port->value)) return;
  script.add("RUN031", Severity::kWarning, port->node,
             "every node draws its own port of the master: they do not meet");
}

void check_port(ShellScript& script) {
  if (runs_once(script)) return;
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

// torchrun --nproc-per-node=8 python train.py
void check_interpreter(ShellScript& script, const Launch& launch) {
  const std::vector<std::string>& words = launch.command->words;
  if (script.option(launch, "no-python")) return;
  for (size_t i = launch.word + 1; i + 1 < words.size(); ++i) {
    const std::string_view name = std::string_view(words[i]).substr(words[i].rfind('/') + 1);
    if ((name != "python" && name != "python3") || !words[i + 1].ends_with(".py")) continue;
    script.add("RUN045", Severity::kError, launch.command->word_nodes[i],
               fmt::format("the launcher starts Python by itself and takes \"{}\" for the script",
                           words[i]));
    return;
  }
}

// The literal behind "$NAME" or "${NAME}", else the text itself.
std::string followed(const ShellScript& script, const std::string& text) {
  if (text.size() < 2 || text[0] != '$') return text;
  const bool has_braces = text[1] == '{' && text.back() == '}';
  const std::string name =
      has_braces ? text.substr(2, text.size() - 3) : text.substr(1, text.size() - 1);
  return script.value_of(name).value_or(text);
}

void check_address(ShellScript& script) {
  for (const ShellVariable& variable : script.variables()) {
    const std::string value = followed(script, variable.value);
    if (!variable.name.starts_with("MASTER_ADDR") || !is_address(value)) continue;
    add_written_address(script, variable.node, value);
    return;
  }
}

void check_port_number(ShellScript& script, const Launch& launch) {
  constexpr int kLargestPort = 65535;
  for (const std::string_view name : {"master-port", "main-process-port"}) {
    const auto port = script.option(launch, name);
    if (!port || count_in(port->value).value_or(0) <= kLargestPort) continue;
    script.add(
        "RDZV007", Severity::kError, port->node,
        fmt::format("--{} {} is no port: the largest is {}", name, port->value, kLargestPort));
  }
}

bool is_place_of_meeting(std::string_view variable) {
  for (const std::string_view part : {"MASTER", "RDZV", "HEAD", "ADDR", "master", "head", "rdzv"}) {
    if (variable.find(part) != variable.npos) return true;
  }
  return false;
}

bool starts_several(const ShellScript& script) {
  return std::any_of(script.launches().begin(), script.launches().end(), [&](const Launch& launch) {
    const auto nodes = script.option(launch, names_of(launch.by).nodes);
    return nodes && nodes->value != "1" && !nodes->value.empty();
  });
}

// `$(scontrol ... || echo localhost)`: where the first command is missing, the job does not fail
// but falls apart.
void check_fallback(ShellScript& script) {
  if (!starts_several(script)) return;
  for (const ShellVariable& variable : script.variables()) {
    const size_t echo = variable.value.find("|| echo ");
    if (echo == std::string::npos || !is_place_of_meeting(variable.name)) continue;
    const std::string_view host = std::string_view(variable.value).substr(echo + 8);
    if (!is_this_machine(host)) continue;
    script.add("RUN030", Severity::kWarning, variable.node,
               fmt::format("{} becomes this very node where the command before \"||\" fails: then "
                           "every node meets only itself, and nothing says so",
                           variable.name));
  }
}

// Addresses of the master that are often another machine's, or none that others can reach.
void check_doubtful_address(ShellScript& script) {
  if (!starts_several(script)) return;
  for (const ShellVariable& variable : script.variables()) {
    const std::string_view value = variable.value;
    if (!is_place_of_meeting(variable.name)) continue;
    if (value.find("SLURM_LAUNCH_NODE_IPADDR") != value.npos) {
      script.add("RUN030", Severity::kWarning, variable.node,
                 "SLURM_LAUNCH_NODE_IPADDR is the machine where srun was called: a login node, "
                 "where it was called there, and empty before any srun");
      return;
    }
    for (const std::string_view sign : {"hostname --ip-address", "hostname -i"}) {
      const size_t at = value.find(sign);
      const size_t end = at + sign.size();
      const bool is_whole = at != value.npos && (end == value.size() || value[end] == ')' ||
                                                 value[end] == '`' || value[end] == ' ');
      if (!is_whole || value.find("grep", at) != value.npos ||
          value.find("awk", at) != value.npos || script.mentions("%% ") ||
          script.mentions("head_node_ip%")) {
        continue;
      }
      script.add("RUN030", Severity::kNote, variable.node,
                 fmt::format("{} gives what the node's own /etc/hosts says of its name: 127.0.1.1 "
                             "on some systems, several addresses on others; its name is safe",
                             sign));
      return;
    }
  }
}

// NCCL_SOCKET_IFNAME=lo with ranks elsewhere.
void check_loopback(ShellScript& script, bool several) {
  for (const ShellVariable& variable : script.variables()) {
    if (variable.value != "lo" || (!variable.name.starts_with("NCCL_SOCKET_IFNAME") &&
                                   !variable.name.starts_with("GLOO_SOCKET_IFNAME"))) {
      continue;
    }
    if (!several && !script.mentions("-H ") && !script.mentions("--hostfile")) continue;
    script.add(
        "NET004", Severity::kError, variable.node,
        fmt::format("{}=lo: the nodes cannot reach each other over the loopback", variable.name));
  }
}

}  // namespace

void check_torchrun(ShellScript& script) {
  check_address(script);
  check_fallback(script);
  check_doubtful_address(script);
  bool several = false;
  for (const Launch& launch : script.launches()) {
    if (launch.deprecated) {
      script.add("RUN021", Severity::kNote, launch.command->word_nodes[launch.word],
                 "torch.distributed.launch is deprecated: torchrun takes its place, and gives "
                 "LOCAL_RANK in the environment instead of --local_rank");
    }
    if (launch.by == LaunchedBy::kPlain) continue;
    check_gpus(script, launch);
    check_interpreter(script, launch);
    check_port_number(script, launch);
    check_standalone(script, launch);
    const std::optional<int> nodes = nodes_of(script, launch);
    const auto written = script.option(launch, names_of(launch.by).nodes);
    if (written && !written->value.empty() && nodes != 1) {
      check_endpoint(script, launch, written->value);
      check_no_master(script, launch);
      check_drawn_port(script, launch);
    }
    if (!nodes) check_local_master(script, launch);
    if (nodes.value_or(1) < 2) continue;
    several = true;
    check_meeting(script, launch, *nodes);
    check_node_rank(script, launch, *nodes);
    check_rendezvous_id(script, launch);
  }
  if (several) check_port(script);
  check_loopback(script, several);
}

}  // namespace shanty::lint
