#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

bool reads_environment(const Context& context, std::string_view name) {
  for (const char quote : {'"', '\''}) {
    if (context.mentions(fmt::format("{0}{1}{0}", quote, name))) return true;
  }
  return false;
}

// torch.distributed.launch gave --local_rank; torchrun sets LOCAL_RANK and gives no argument.
void check_local_rank_argument(Context& context) {
  if (reads_environment(context, "LOCAL_RANK") || context.facts.managed || context.facts.spawns) {
    return;
  }
  for (const Call* call : context.script.calls_to("add_argument")) {
    std::string_view option;
    bool spells_both = false;
    for (const NodeId argument :
         context.tree.children(context.tree.child(call->node, "arguments"))) {
      const std::string_view text = context.script.literal(argument);
      if (text != "--local_rank" && text != "--local-rank") continue;
      spells_both = !option.empty() && option != text;
      option = text;
    }
    if (option.empty()) continue;
    // What nobody reads here makes no difference to torchrun.
    const bool is_read = context.mentions(".local_rank") || context.mentions("['local_rank']");
    context.add("RUN020", is_read ? Severity::kWarning : Severity::kNote, call->node,
                fmt::format("torchrun gives no {}: it keeps its default on every process{}; read "
                            "LOCAL_RANK from the environment",
                            option,
                            spells_both ? ""
                            : option == "--local_rank"
                                ? ", and torch.distributed.launch gives --local-rank since torch "
                                  "2.0, which this parser refuses"
                                : ""));
    return;
  }
}

const Call* spawn_of(const Context& context) {
  for (const std::string_view name :
       {"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"}) {
    const std::vector<const Call*> calls = context.script.calls_to(name);
    if (!calls.empty()) return calls.front();
  }
  return nullptr;
}

void check_spawn(Context& context) {
  if (!context.facts.spawns) return;
  const Call* spawn = spawn_of(context);
  if (spawn != nullptr && reads_environment(context, "LOCAL_RANK") &&
      !context.is_conditional(spawn->node) && !context.guards.of(spawn->node).callers_unknown) {
    context.add("RUN022", Severity::kWarning, spawn->node,
                "this script reads LOCAL_RANK, which torchrun sets, and spawns processes of its "
                "own: under torchrun every process starts a whole set of them");
    return;
  }
  for (const Call* init : context.script.calls_to("init_process_group")) {
    const NodeId rank = context.script.argument(*init, "rank");
    if (context.ranks.value(rank).kind != RankKind::kSpawn) continue;
    context.add("RUN023", Severity::kNote, rank,
                "the rank is the index of the spawned process: this script runs on one node only");
    return;
  }
}

void check_written_identity(Context& context) {
  std::string names;
  NodeId first = kNoNode;
  for (const Assignment& one : context.script.assignments()) {
    const std::string_view name = environment_key(one.target);
    if (name != "MASTER_ADDR" && name != "MASTER_PORT" && name != "RANK" && name != "WORLD_SIZE" &&
        name != "LOCAL_RANK") {
      continue;
    }
    if (context.script.literal(one.value).empty() || context.is_conditional(one.node)) continue;
    if (context.guards.of(one.node).callers_unknown) continue;
    if (first == kNoNode) first = one.node;
    if (names.find(name) == std::string::npos) (names += names.empty() ? "" : ", ") += name;
  }
  if (first == kNoNode) return;
  context.add("RUN024", Severity::kWarning, first,
              fmt::format("{} written into the script: what the launcher gave is overwritten, and "
                          "several nodes do not find each other",
                          names));
}

void check_written_method(Context& context) {
  for (const Call* init : context.script.calls_to("init_process_group")) {
    const NodeId method = context.script.argument(*init, "init_method", 1);
    const std::string_view url = context.script.literal(method);
    // A group of one: nobody to meet.
    if (context.tree.text(context.script.argument(*init, "world_size")) == "1") continue;
    if (url.starts_with("file://") && !context.script.calls_any({"remove", "unlink", "rmtree"})) {
      context.add("RUN024", Severity::kWarning, method,
                  fmt::format("the ranks meet in the file {}, which stays after a run that is "
                              "killed: the next one takes its ranks for its own and waits",
                              url.substr(std::string_view("file://").size())));
      return;
    }
    if (!url.starts_with("tcp://")) continue;
    context.add("RUN024", Severity::kWarning, method,
                fmt::format("the address {} is written into the script: a rescheduled pod has "
                            "another one",
                            url));
    return;
  }
}

bool is_written_host(std::string_view host) {
  return !host.empty() && host != "localhost" && host != "::1" && !host.starts_with("127.") &&
         host != "0.0.0.0";
}

// Processes of one machine may meet at localhost, but not at some other machine's address.
void check_written_host(Context& context) {
  for (const Assignment& one : context.script.assignments()) {
    const std::string_view host = context.script.literal(one.value);
    if (environment_key(one.target) != "MASTER_ADDR" || !is_written_host(host)) continue;
    context.add("RUN024", Severity::kWarning, one.node,
                fmt::format("the address {} is written into the script: it works on that one "
                            "machine only",
                            host));
    return;
  }
}

// The rank is counted over nodes, and all of them are told to meet at their own localhost.
void check_localhost_of_several(Context& context) {
  const auto inits = context.script.calls_to("torch.distributed.init_process_group");
  const bool has_nodes = std::any_of(inits.begin(), inits.end(), [&](const Call* init) {
    const RankValue rank = context.ranks.value(context.script.argument(*init, "rank"));
    return rank.kind == RankKind::kGlobal && rank.proven;
  });
  if (!has_nodes) return;
  for (const Assignment& one : context.script.assignments()) {
    const std::string_view host = context.script.literal(one.value);
    if (environment_key(one.target) != "MASTER_ADDR" || host.empty() || is_written_host(host) ||
        context.is_conditional(one.node)) {
      continue;
    }
    context.add("RUN024", Severity::kWarning, one.node,
                fmt::format("the ranks are counted over several nodes, and each node is told to "
                            "meet at its own {}",
                            host));
    return;
  }
}

// spawn() hands out an index and sets no variable.
void check_nowhere_to_meet(Context& context) {
  if (spawn_of(context) == nullptr || context.mentions("MASTER_ADDR")) return;
  for (const Call* init : context.script.calls_to("torch.distributed.init_process_group")) {
    const NodeId method = context.script.argument(*init, "init_method", 1);
    const bool by_environment =
        method == kNoNode || context.script.literal(method).starts_with("env://");
    if (!by_environment || context.script.has_splat(*init) ||
        context.script.argument(*init, "store") != kNoNode ||
        context.script.literal(context.script.argument(*init, "backend", 0)) == "mpi") {
      continue;
    }
    context.add("RUN044", Severity::kWarning, init->node,
                "nothing says where the ranks meet: spawn() sets no MASTER_ADDR and MASTER_PORT, "
                "and this script does not either");
    return;
  }
}

// The address of the machine where srun was called, whoever that was.
void check_launch_node(Context& context) {
  for (const Assignment& one : context.script.assignments()) {
    if (environment_key(one.target) != "MASTER_ADDR" ||
        context.tree.text(one.node).find("SLURM_LAUNCH_NODE_IPADDR") == std::string_view::npos) {
      continue;
    }
    context.add("RUN030", Severity::kWarning, one.node,
                "SLURM_LAUNCH_NODE_IPADDR is the machine where srun was called: a login node, "
                "where it was called there, and no rank listens on it");
    return;
  }
}

}  // namespace

void check_launch(Context& context) {
  if (!context.facts.distributed) return;
  check_local_rank_argument(context);
  check_spawn(context);
  check_launch_node(context);
  if (context.facts.spawns) {  // one node, one machine: said above
    check_written_host(context);
    check_localhost_of_several(context);
    check_nowhere_to_meet(context);
    return;
  }
  check_written_identity(context);
  check_written_method(context);
}

}  // namespace shanty::lint
