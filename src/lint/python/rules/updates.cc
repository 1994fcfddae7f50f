#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

std::string_view owner_of(const Call& call) {
  const size_t dot = call.name.rfind('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(call.name).substr(0, dot);
}

bool is_optimizer(std::string_view owner) {
  return mentions_any(owner, {"optim"}) || owner == "opt" || owner.ends_with(".opt");
}

// The wrapped model, or what is inside the wrapper.
bool is_of_wrapped(const Context& context, const Call& call) {
  const SyntaxTree& tree = context.tree;
  const NodeId object = tree.child(tree.child(call.node, "function"), "object");
  const auto wrapped = [&](NodeId model) {
    return std::any_of(context.ddp_calls().begin(), context.ddp_calls().end(),
                       [&](const Call* ddp) {
                         return ddp->function == call.function && ddp->node < call.node;
                       }) &&
           context.is_wrapped(model);
  };
  if (wrapped(object)) return true;
  return tree.is(object, "attribute") && tree.text(tree.child(object, "attribute")) == "module" &&
         wrapped(tree.child(object, "object"));
}

// What a call changes that must be the same on all ranks, or nothing.
std::string_view changed_by(const Context& context, const Call& call) {
  const std::string_view last = call.last();
  if (last == "clip_grad_norm_" || last == "clip_grad_value_") return "gradients";
  const std::string_view owner = owner_of(call);
  if (last == "step" && (is_optimizer(owner) || mentions_any(owner, {"scaler"}))) return "weights";
  if (last == "step" && mentions_any(owner, {"sched"})) return "learning rates";
  if (last != "load_state_dict" || context.facts.fsdp) return {};
  if (is_optimizer(owner)) return "optimizer";
  return is_of_wrapped(context, call) ? "weights" : std::string_view();
}

// Somebody hands on afterwards what one rank has.
bool is_handed_on(const Context& context, const Call& call) {
  const auto& calls = context.script.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const Call& other) {
    return other.function == call.function && other.node > call.node &&
           other.last().starts_with("broadcast");
  });
}

// The same call for the others.
bool has_twin(const Context& context, const Call& call, const Guard& guard) {
  const std::vector<const Call*> all = context.script.calls_to(call.last());
  return std::any_of(all.begin(), all.end(), [&](const Call* other) {
    if (other == &call || other->function != call.function) return false;
    const Guard its = context.guards.within_function(other->node);
    return guard.others ? (its.one || its.one_per_node) : its.others;
  });
}

}  // namespace

void check_updates(Context& context) {
  const bool is_own_loop = !context.facts.managed || context.facts.own_loop;
  if (!is_own_loop || !(context.facts.ddp || context.facts.fsdp || context.facts.own_loop)) return;
  for (const Call& call : context.script.calls()) {
    const std::string_view what = changed_by(context, call);
    if (what.empty()) continue;
    const Guard guard = context.guards.within_function(call.node);
    if (!guard.some() || guard.ordered || guard.condition == kNoNode ||
        has_twin(context, call, guard) || is_handed_on(context, call)) {
      continue;
    }
    Finding& finding = context.add(
        "RANK036", Severity::kError, call.node,
        fmt::format("only some ranks come to {}: from here on the {} of the ranks differ, and "
                    "nothing makes them equal again",
                    context.quoted(call.node),
                    what == "optimizer" ? "states of the optimizers" : what));
    finding.evidence.push_back({.file = finding.file,
                                .line = static_cast<uint64_t>(context.line(guard.condition)),
                                .text = context.quoted(guard.condition)});
  }
}

}  // namespace shanty::lint
