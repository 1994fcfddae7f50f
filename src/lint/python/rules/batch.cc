#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

bool counts_processes(const Context& context, NodeId node) {
  const RankKind kind = context.ranks.value(node).kind;
  return kind == RankKind::kWorld || kind == RankKind::kLocalWorld ||
         mentions_any(context.tree.text(node), {"world", "gpus", "n_gpu", "replicas", "num_proc"});
}

// True where the learning rate or the batch is computed with the number of processes.
bool scales(const Context& context) {
  const SyntaxTree& tree = context.tree;
  for (NodeId node = 0; node < tree.size(); ++node) {
    const bool augmented = tree.is(node, "augmented_assignment");
    if (!augmented && !tree.is(node, "binary_operator")) continue;
    const std::string_view op = tree.text(tree.child(node, "operator"));
    if (op.empty() || (op[0] != '*' && op[0] != '/')) continue;
    if (!counts_processes(context, tree.child(node, "left")) &&
        !counts_processes(context, tree.child(node, "right"))) {
      continue;
    }
    NodeId statement = node;
    while (tree.parent(statement) != kNoNode && !tree.is(statement, "expression_statement")) {
      statement = tree.parent(statement);
    }
    if (mentions_any(tree.text(statement), {"lr", "learning_rate", "batch", "bsz", "bs"}))
      return true;
  }
  return false;
}

void check_learning_rate(Context& context) {
  if (context.script.calls_to("backward").empty() || context.training_loaders().empty()) return;
  const std::vector<const Call*> optimizers = context.script.calls_to("torch.optim.SGD");
  if (optimizers.empty() || scales(context)) return;
  const NodeId rate = context.script.argument(*optimizers.front(), "lr", 1);
  if (rate == kNoNode) return;
  context.add("SCR006", Severity::kNote, rate,
              fmt::format("the learning rate {} stays the same while the global batch grows with "
                          "every GPU",
                          context.quoted(rate)));
}

// batch = batch / ngpus_per_node: what is left depends on the number of nodes.
void check_batch_per_node(Context& context) {
  const SyntaxTree& tree = context.tree;
  for (NodeId node = 0; node < tree.size(); ++node) {
    if (!tree.is(node, "binary_operator") ||
        !tree.text(tree.child(node, "operator")).starts_with('/')) {
      continue;
    }
    const NodeId left = tree.child(node, "left");
    if (!mentions_any(tree.text(left), {"batch"}) || tree.is(left, "binary_operator") ||
        context.ranks.value(tree.child(node, "right")).kind != RankKind::kLocalWorld) {
      continue;
    }
    context.add("SCR007", Severity::kNote, node,
                fmt::format("{} divides the batch by the GPUs of one node: with more nodes the "
                            "global batch grows",
                            context.quoted(node)));
    return;
  }
}

}  // namespace

void check_batch(Context& context) {
  if (!context.facts.distributed || context.facts.managed) return;
  if (context.facts.ddp) check_learning_rate(context);
  check_batch_per_node(context);
}

}  // namespace shanty::lint
