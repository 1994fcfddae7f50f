#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

// The `if` between a node and a loop around it, or kNoNode.
NodeId condition_within(const SyntaxTree& tree, NodeId node, NodeId loop) {
  NodeId below = node;
  for (NodeId at = tree.parent(node); at != kNoNode && at != loop; at = tree.parent(at)) {
    if (tree.is(at, "if_statement") && !tree.in_field(below, "condition")) return at;
    if (tree.is(at, "conditional_expression")) return at;
    below = at;
  }
  return kNoNode;
}

void check_item(Context& context, NodeId loop) {
  if (!context.facts.gpu && !context.facts.own_loop) return;
  for (const Call* call : context.script.calls_to("item")) {
    const NodeId callee = context.tree.child(call->node, "function");
    if (!context.tree.is(callee, "attribute")) continue;
    if (context.script.loop_around(call->node) != loop) continue;
    if (condition_within(context.tree, call->node, loop) != kNoNode) continue;
    context.add("SCR009", Severity::kNote, call->node,
                fmt::format("{} waits for the GPU in every step", context.quoted(call->node)));
    return;
  }
}

void check_empty_cache(Context& context, NodeId loop) {
  for (const Call* call : context.script.calls_to("torch.cuda.empty_cache")) {
    if (context.script.loop_around(call->node) != loop ||
        condition_within(context.tree, call->node, loop) != kNoNode ||
        context.tree.ancestor(call->node, "except_clause") != kNoNode) {
      continue;
    }
    context.add("SCR011", Severity::kNote, call->node,
                "empty_cache() in every step waits for the GPU and makes the allocator ask the "
                "driver again; it frees nothing that this process could use");
    return;
  }
}

// loss.backward() in each step, optimizer.step() in every n-th only.
void check_accumulation(Context& context, NodeId loop) {
  if (!context.facts.ddp || context.mentions("no_sync") ||
      context.mentions("require_backward_grad_sync")) {
    return;
  }
  const SyntaxTree& tree = context.tree;
  const Call* backward = nullptr;
  for (const Call* call : context.script.calls_to("backward")) {
    if (context.script.loop_around(call->node) == loop) backward = call;
  }
  for (const Call* step : context.script.calls_to("step")) {
    if (!mentions_any(step->name, {"optim", "opt.", "scaler"})) continue;
    if (context.script.loop_around(step->node) != loop) continue;
    const NodeId condition = condition_within(tree, step->node, loop);
    if (condition == kNoNode || backward == nullptr || tree.contains(condition, backward->node)) {
      continue;
    }
    const std::string_view text = tree.text(tree.child(condition, "condition"));
    if (text.find('%') == std::string_view::npos) continue;
    context.add("SCR010", Severity::kNote, backward->node,
                fmt::format("gradients are reduced over all ranks in every backward(), though the "
                            "optimizer steps only if {}: wrap the others in no_sync()",
                            context.quoted(tree.child(condition, "condition"))));
    return;
  }
}

bool swallows(const SyntaxTree& tree, NodeId clause) {
  NodeId body = kNoNode;
  std::string_view what;
  for (const NodeId part : tree.children(clause)) {
    if (tree.is(part, "block")) {
      body = part;
    } else {
      what = tree.text(part);
    }
  }
  const bool broad = what.empty() || what.starts_with("Exception") ||
                     what.starts_with("RuntimeError") || what.starts_with("BaseException");
  if (!broad || body == kNoNode) return false;
  return !mentions_any(tree.text(body), {"raise", "exit", "return", "abort", "break"});
}

bool steps_within(const Context& context, NodeId loop) {
  const std::vector<const Call*> steps = context.script.calls_to("step");
  return std::any_of(steps.begin(), steps.end(),
                     [&](const Call* step) { return context.tree.contains(loop, step->node); });
}

// One rank skips a step and the others wait for it.
void check_swallowed(Context& context) {
  const SyntaxTree& tree = context.tree;
  for (const Call* call : context.script.calls_to("backward")) {
    const NodeId attempt = tree.ancestor(call->node, "try_statement");
    const NodeId loop = context.script.loop_around(call->node);
    if (attempt == kNoNode || loop == kNoNode || !steps_within(context, loop) ||
        !tree.contains(loop, attempt) || !tree.contains(tree.child(attempt, "body"), call->node)) {
      continue;
    }
    for (const NodeId clause : tree.children(attempt)) {
      if (!tree.is(clause, "except_clause") || !swallows(tree, clause)) continue;
      context.add("SCR012", Severity::kWarning, clause,
                  "a rank that fails here goes on with its next step, and the others wait for it "
                  "in the one that it left");
      return;
    }
  }
}

// `try: loss = model(batch) except X: continue`, and the backward comes after it.
void check_skipped_forward(Context& context) {
  const SyntaxTree& tree = context.tree;
  const std::vector<const Call*> backwards = context.script.calls_to("backward");
  for (const Call& call : context.script.calls()) {
    const NodeId callee = tree.child(call.node, "function");
    if (!context.is_wrapped(callee) && !context.is_fsdp_wrapped(callee)) continue;
    const NodeId attempt = tree.ancestor(call.node, "try_statement");
    const NodeId loop = context.script.loop_around(call.node);
    if (attempt == kNoNode || loop == kNoNode || !tree.contains(loop, attempt) ||
        !tree.contains(tree.child(attempt, "body"), call.node)) {
      continue;
    }
    const bool goes_on = std::any_of(backwards.begin(), backwards.end(), [&](const Call* backward) {
      return tree.contains(loop, backward->node) && !tree.contains(attempt, backward->node) &&
             backward->node > attempt;
    });
    if (!goes_on) continue;
    for (const NodeId clause : tree.children(attempt)) {
      const std::string_view text = tree.text(clause);
      if (!tree.is(clause, "except_clause") || text.find("continue") == std::string_view::npos ||
          mentions_any(text, {"reduce", "gather", "broadcast", "raise", "exit"})) {
        continue;
      }
      context.add("SCR012", Severity::kWarning, clause,
                  "a rank whose forward fails skips its backward, and the others wait for its "
                  "gradients");
      return;
    }
  }
}

void check_same_seed(Context& context) {
  if (!context.facts.ddp) return;
  if (!context.mentions("RandomResizedCrop") && !context.mentions("RandomHorizontalFlip") &&
      !context.mentions("RandomCrop") && !context.mentions("RandAugment")) {
    return;
  }
  const std::vector<const Call*> seeds = context.script.calls_to("torch.manual_seed");
  if (seeds.empty() || context.mentions("worker_init_fn")) return;
  for (const Call* seed : seeds) {
    const NodeId value = context.script.argument(*seed, "seed", 0);
    if (mentions_any(context.tree.text(value), {"rank"})) return;
    for (const Assignment* one :
         context.script.assignments_to(context.tree.text(value), seed->function)) {
      if (mentions_any(context.tree.text(one->value), {"rank"})) return;
    }
  }
  context.add("SCR013", Severity::kNote, seeds.front()->node,
              "all ranks have the same seed: they draw the same random crops and flips");
}

}  // namespace

void check_step(Context& context) {
  if (context.facts.trainer()) return;
  const NodeId loop = context.training_loop();
  if (loop != kNoNode) {
    check_item(context, loop);
    check_empty_cache(context, loop);
    if (!context.facts.managed) check_accumulation(context, loop);
  }
  if (!context.facts.distributed || context.facts.managed) return;
  check_swallowed(context);
  check_skipped_forward(context);
  check_same_seed(context);
}

}  // namespace shanty::lint
