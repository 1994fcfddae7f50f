#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

constexpr std::string_view kCode = "RANK001";

bool is_local(const Context& context, NodeId node) {
  return context.ranks.value(node).kind == RankKind::kLocal;
}

void add_edit_to_rank(const Context& context, Finding& finding, NodeId value) {
  const std::string_view dist = context.script.alias_of("torch.distributed");
  if (dist.empty()) return;
  finding.edits.push_back({.begin = context.tree.begin(value),
                           .end = context.tree.end(value),
                           .text = fmt::format("{}.get_rank()", dist)});
}

// A call that is told its share by rank= and by the size of the world.
void check_shares(Context& context) {
  const Script& script = context.script;
  for (const Call& call : script.calls()) {
    const bool sampler = call.last().ends_with("DistributedSampler");
    const bool group = call.last() == "init_process_group";
    NodeId rank = script.argument(call, "rank", sampler ? 2 : -1);
    if (call.last() == "shard") rank = script.argument(call, "index", 1);
    if (rank == kNoNode || !is_local(context, rank)) continue;
    NodeId world = kNoNode;
    for (const std::string_view name : {"world_size", "num_replicas", "num_shards"}) {
      if (world == kNoNode) world = script.argument(call, name, sampler ? 1 : -1);
    }
    if (call.last() == "shard") world = script.argument(call, "num_shards", 0);
    const RankKind size = context.ranks.value(world).kind;
    const bool of_the_job = size == RankKind::kWorld || (world == kNoNode && sampler);
    if (!group && !of_the_job) continue;
    Finding& finding = context.add(
        kCode, Severity::kError, rank,
        group ? fmt::format("{} is the rank within a node, not the rank of the job: processes of "
                            "several nodes claim the same rank",
                            context.quoted(rank))
              : fmt::format("{} gets its share of the data by {}, the rank within a node: the "
                            "nodes read the same samples",
                            call.last(), context.quoted(rank)));
    if (!group) add_edit_to_rank(context, finding, rank);
  }
}

// files[local_rank::world_size]
void check_slices(Context& context) {
  const SyntaxTree& tree = context.tree;
  for (NodeId node = 0; node < tree.size(); ++node) {
    if (!tree.is(node, "slice")) continue;
    const std::vector<NodeId> parts = tree.children(node);
    if (parts.size() != 2 ||
        !tree.source().substr(tree.begin(node)).starts_with(tree.text(parts[0]))) {
      continue;
    }
    if (!is_local(context, parts[0]) || context.ranks.value(parts[1]).kind != RankKind::kWorld) {
      continue;
    }
    Finding& finding = context.add(
        kCode, Severity::kError, parts[0],
        fmt::format("the data is split by {}, the rank within a node: the nodes read the same part",
                    context.quoted(parts[0])));
    add_edit_to_rank(context, finding, parts[0]);
  }
}

std::string_view what_is_written(const Call& call) {
  if (call.name == "torch.save") return "a checkpoint";
  if (call.last() == "save_pretrained") return "a model";
  if (call.last() == "SummaryWriter") return "a TensorBoard log";
  if (call.name == "wandb.init") return "a run in Weights & Biases";
  return {};
}

// The path of a file that names its node or rank is one of several on purpose.
bool names_its_writer(const Context& context, const Call& call) {
  const NodeId path = context.script.argument(call, "f", 1);
  if (mentions_any(context.tree.text(path), {"rank", "host", "node", "shard"})) return true;
  for (const Assignment* one :
       context.script.assignments_to(context.tree.text(path), call.function)) {
    if (mentions_any(context.tree.text(one->value), {"rank", "host", "node"})) return true;
  }
  return false;
}

void check_writers(Context& context) {
  for (const Call& call : context.script.calls()) {
    const std::string_view what = what_is_written(call);
    // A trainer keeps its logs by itself; what is saved beside it is the script's affair.
    const bool is_saved = call.name == "torch.save" || call.last() == "save_pretrained";
    if (what.empty() || (context.facts.trainer() && !is_saved)) continue;
    const Guard guard = context.guards.of(call.node);
    if (!guard.one_per_node || guard.one || names_its_writer(context, call)) continue;
    Finding& finding = context.add(
        kCode, Severity::kWarning, call.node,
        fmt::format("one process of every node writes {} here, since {} asks for the rank within "
                    "a node",
                    what, context.quoted(guard.condition)));
    finding.evidence.push_back({.file = finding.file,
                                .line = static_cast<uint64_t>(context.line(guard.condition)),
                                .text = context.quoted(guard.condition)});
  }
}

}  // namespace

void check_local_rank(Context& context) {
  if (!context.facts.distributed) return;
  check_shares(context);
  check_slices(context);
  check_writers(context);
}

}  // namespace shanty::lint
