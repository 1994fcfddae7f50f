#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

constexpr std::string_view kCode = "RANK035";
constexpr size_t kMaxSteps = 32;    // calls of backward() looked at
constexpr size_t kMaxReduced = 16;  // calls of reduce()

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// A call by whose name ranks share a value: all_reduce, broadcast_object_list, reduce_dict.
bool shares(const Call& call) {
  if (call.name.starts_with("torch.cuda.")) return false;
  const std::string name = lowered(call.last());
  if (name.find("plateau") != std::string::npos || name == "functools.reduce") return false;
  for (const std::string_view word : {"reduce", "gather", "broadcast", "synchron", "agree"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

bool shares_anything(const Context& context) {
  const auto& calls = context.script.calls();
  // torchmetrics reduces in compute(), whatever it is called by.
  return context.mentions("torchmetrics") || std::any_of(calls.begin(), calls.end(), shares);
}

bool is_training_loop(const Context& context, NodeId loop) {
  if (loop == kNoNode) return false;
  if (context.tree.is(loop, "for_statement") &&
      mentions_any(context.tree.text(context.tree.child(loop, "left")), {"epoch"})) {
    return true;
  }
  const std::vector<const Call*> calls = context.script.calls_to("backward");
  return std::any_of(calls.begin(), calls.end(),
                     [&](const Call* call) { return context.tree.contains(loop, call->node); });
}

// The `if` right around a statement, or kNoNode.
NodeId condition_around(const SyntaxTree& tree, NodeId statement) {
  const NodeId above = tree.parent(tree.parent(statement));
  return tree.is(above, "if_statement") ? tree.child(above, "condition") : kNoNode;
}

bool has_other_break(const Context& context, NodeId loop, NodeId statement, bool others) {
  for (NodeId at = loop; at < context.tree.subtree_end(loop); ++at) {
    if (at == statement || !context.tree.is(at, "break_statement")) continue;
    const Guard guard = context.guards.within_function(at);
    if (!guard.some() || guard.others != others) return true;
  }
  return false;
}

// `break` under a condition on the rank.
void check_break_of_one(Context& context) {
  for (NodeId node = 0; node < context.tree.size(); ++node) {
    if (!context.tree.is(node, "break_statement")) continue;
    const NodeId loop = context.script.loop_around(node);
    if (!is_training_loop(context, loop) || context.guards.within_function(loop).some()) continue;
    const Guard guard = context.guards.within_function(node);
    if (!guard.some() || has_other_break(context, loop, node, guard.others)) continue;
    Finding& finding =
        context.add(kCode, Severity::kError, node,
                    guard.others ? "one rank goes on alone here: it waits for the ranks that left "
                                   "the loop"
                                 : "one rank leaves the loop here: the others wait for it in "
                                   "their next step");
    finding.evidence.push_back({.file = finding.file,
                                .line = static_cast<uint64_t>(context.line(guard.condition)),
                                .text = context.quoted(guard.condition)});
    return;
  }
}

// Every rank validates its own share.
bool divides_validation(const Context& context) {
  const auto& calls = context.script.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
    return call.last().ends_with("DistributedSampler") &&
           (mentions_any(context.given_name(call), {"val", "eval", "test", "dev"}) ||
            mentions_any(context.tree.text(context.script.argument(call, "dataset", 0)),
                         {"val", "eval", "test", "dev"}));
  });
}

// The names in the conditions around a statement, up to the loop that it leaves, and what they
// are counted by: "bad += 1" stands under "if total < best".
std::set<std::string_view> names_behind(const Context& context, NodeId statement, NodeId loop) {
  const SyntaxTree& tree = context.tree;
  std::set<std::string_view> names;
  const auto add_conditions = [&](NodeId from) {
    for (NodeId at = tree.parent(from); at != kNoNode && at != loop; at = tree.parent(at)) {
      if (!tree.is(at, "if_statement")) continue;
      const NodeId condition = tree.child(at, "condition");
      for (NodeId id = condition; id < tree.subtree_end(condition); ++id) {
        if (tree.is(id, "identifier")) names.insert(tree.text(id));
      }
    }
  };
  add_conditions(statement);
  const std::set<std::string_view> first = names;
  for (const Assignment& one : context.script.assignments()) {
    if (tree.contains(loop, one.node) && first.count(one.target) != 0) add_conditions(one.node);
  }
  return names;
}

// A number that a rank takes from its own part of the data.
bool is_measured(const Context& context, NodeId loop, const std::set<std::string_view>& names) {
  const std::vector<Assignment>& all = context.script.assignments();
  return std::any_of(all.begin(), all.end(), [&](const Assignment& one) {
    const bool takes_item = !context.tree.is(one.node, "for_statement") &&
                            context.tree.text(one.node).find(".item()") != std::string_view::npos;
    return takes_item && context.tree.contains(loop, one.node) && names.count(one.target) != 0;
  });
}

// `if early_stopping.early_stop: break`, where each rank counts by its own loss.
void check_early_stop(Context& context) {
  if (!divides_validation(context) || shares_anything(context)) return;
  for (NodeId node = 0; node < context.tree.size(); ++node) {
    if (!context.tree.is(node, "break_statement")) continue;
    const NodeId condition = condition_around(context.tree, node);
    const NodeId loop = context.script.loop_around(node);
    if (!is_training_loop(context, loop) || context.guards.within_function(node).some()) continue;
    const bool is_named = mentions_any(
        context.tree.text(condition), {"early_stop", "earlystop", "patience", "stopper",
                                       "should_stop", "stop_training", "no_improve", "bad_epochs"});
    if (!is_named &&
        (condition == kNoNode || !is_measured(context, loop, names_behind(context, node, loop)))) {
      continue;
    }
    context.add(kCode, Severity::kWarning, node,
                fmt::format("each rank decides by its own share of the validation data whether {}: "
                            "the first to stop leaves the others waiting",
                            context.quoted(condition)));
    return;
  }
}

bool asks_about_data(std::string_view condition) {
  if (mentions_any(condition, {"isnan", "isinf", "isfinite"})) return true;
  const bool is_none = condition.ends_with("is None");
  return is_none && mentions_any(condition, {"batch", "data", "sample", "image", "loss", "input"});
}

// `if torch.isnan(loss): continue` before backward().
void check_skipped_step(Context& context) {
  const SyntaxTree& tree = context.tree;
  size_t seen = 0;
  for (const Call* backward : context.script.calls_to("backward")) {
    const NodeId loop = context.script.loop_around(backward->node);
    if (loop == kNoNode) continue;
    if (++seen > kMaxSteps) return;
    const auto& calls = context.script.calls();
    const bool agrees = std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
      return tree.contains(loop, call.node) && call.node < backward->node && shares(call);
    });
    if (agrees) continue;
    for (NodeId node = loop; node < backward->node; ++node) {
      if (!tree.is(node, "continue_statement") || context.script.loop_around(node) != loop ||
          !asks_about_data(tree.text(condition_around(tree, node)))) {
        continue;
      }
      context.add(
          kCode, Severity::kWarning, node,
          fmt::format("a rank for which {} skips its backward (line {}): the others wait "
                      "for its gradients",
                      context.quoted(condition_around(tree, node)), context.line(backward->node)));
      return;
    }
  }
}

// `if loss != 0: loss.backward()`, with the loss of this rank's own batch.
void check_step_by_its_loss(Context& context) {
  const SyntaxTree& tree = context.tree;
  size_t seen = 0;
  for (const Call* backward : context.script.calls_to("backward")) {
    const NodeId loop = context.script.loop_around(backward->node);
    if (loop == kNoNode || ++seen > kMaxSteps) continue;
    const std::string_view loss =
        std::string_view(backward->name).substr(0, backward->name.rfind('.'));
    const NodeId condition = condition_around(tree, tree.parent(backward->node));
    if (condition == kNoNode || !tree.contains(loop, condition) ||
        !tree.is(condition, "comparison_operator") ||
        tree.text(condition).find(" is ") != std::string_view::npos) {
      continue;
    }
    const std::vector<NodeId> parts = tree.children(condition);
    const std::string_view asked = parts.empty() ? std::string_view() : tree.text(parts[0]);
    const bool is_loss = asked == loss || asked == std::string(loss) + ".item()";
    const auto& calls = context.script.calls();
    const bool agrees = std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
      return tree.contains(loop, call.node) && call.node < backward->node && shares(call);
    });
    if (!is_loss || agrees) continue;
    context.add(kCode, Severity::kWarning, condition,
                fmt::format("a rank whose own batch does not fulfil {} skips its backward: the "
                            "others wait for its gradients",
                            context.quoted(condition)));
    return;
  }
}

bool mentions_name(const SyntaxTree& tree, NodeId below, const std::set<std::string_view>& names) {
  if (below == kNoNode) return false;
  for (NodeId at = below; at < tree.subtree_end(below); ++at) {
    if (tree.is(at, "identifier") && names.count(tree.text(at)) != 0) return true;
  }
  return false;
}

// What all ranks do together in a branch: then all must take it.
bool acts_together(const Context& context, NodeId branch) {
  for (NodeId at = branch; at < context.tree.subtree_end(branch); ++at) {
    if (context.tree.is(at, "break_statement")) return true;
    const Call* call = context.script.call_at(at);
    if (call == nullptr) continue;
    const bool sharded_state = context.facts.fsdp && call->last() == "state_dict";
    if (sharded_state || call->last() == "barrier" || shares(*call)) return true;
  }
  return false;
}

// dist.reduce(loss, 0), and then all ranks look at the loss.
void check_half_reduced(Context& context) {
  const SyntaxTree& tree = context.tree;
  size_t seen = 0;
  for (const Call* reduce : context.script.calls_to("torch.distributed.reduce")) {
    const NodeId value = context.script.argument(*reduce, "tensor", 0);
    if (!tree.is(value, "identifier")) continue;
    if (++seen > kMaxReduced) return;
    std::set<std::string_view> names{tree.text(value)};
    for (const Assignment& one : context.script.assignments()) {
      if (one.function == reduce->function && one.node > reduce->node &&
          mentions_name(tree, one.value, names)) {
        names.insert(one.target);
      }
    }
    const NodeId end = tree.subtree_end(
        reduce->function == kModule
            ? 0
            : context.script.functions()[static_cast<size_t>(reduce->function)].node);
    for (NodeId node = reduce->node; node < end; ++node) {
      if (!tree.is(node, "if_statement") || context.guards.within_function(node).some()) continue;
      const NodeId condition = tree.child(node, "condition");
      const Split split = context.ranks.split(condition);
      if (split.if_true != Who::kAny || !mentions_name(tree, condition, names) ||
          !acts_together(context, tree.child(node, "consequence"))) {
        continue;
      }
      context.add(kCode, Severity::kError, condition,
                  fmt::format("after reduce() (line {}) only one rank has the sum: the others "
                              "decide {} by their own part; all_reduce() gives it to all",
                              context.line(reduce->node), context.quoted(condition)));
      return;
    }
  }
}

}  // namespace

void check_decisions(Context& context) {
  if (!(context.facts.ddp || context.facts.fsdp) || context.facts.managed) return;
  check_break_of_one(context);
  check_early_stop(context);
  check_skipped_step(context);
  check_step_by_its_loss(context);
  check_half_reduced(context);
}

}  // namespace shanty::lint
