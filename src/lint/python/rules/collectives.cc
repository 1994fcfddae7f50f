#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

constexpr std::string_view kCollectives[] = {"barrier",
                                             "monitored_barrier",
                                             "all_reduce",
                                             "reduce",
                                             "broadcast",
                                             "broadcast_object_list",
                                             "all_gather",
                                             "all_gather_into_tensor",
                                             "all_gather_object",
                                             "gather",
                                             "gather_object",
                                             "scatter",
                                             "scatter_object_list",
                                             "reduce_scatter",
                                             "reduce_scatter_tensor",
                                             "all_to_all",
                                             "all_to_all_single",
                                             "new_group"};

constexpr std::string_view kSharded[] = {
    "torch.distributed.checkpoint.save",
    "torch.distributed.checkpoint.async_save",
    "torch.distributed.checkpoint.load",
    "torch.distributed.checkpoint.save_state_dict",
    "torch.distributed.checkpoint.load_state_dict",
    "torch.distributed.checkpoint.state_dict.get_state_dict",
    "torch.distributed.checkpoint.state_dict.get_model_state_dict",
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict"};

bool is_collective(const Context& context, const Call& call) {
  if (call.name == "torch.distributed." + std::string(call.last())) {
    return std::count(std::begin(kCollectives), std::end(kCollectives), call.last()) != 0 &&
           context.script.argument(call, "group") == kNoNode;
  }
  if (std::count(std::begin(kSharded), std::end(kSharded), call.name) != 0) {
    return !context.script.is_true(context.script.argument(call, "no_dist"));
  }
  return call.last() == "wait_for_everyone" && context.script.imports("accelerate");
}

// The other half of "if rank == 0: broadcast(x) else: broadcast(y)", or of a barrier that some
// reach before and some after.
bool has_counterpart(const Context& context, const Call& call, const Guard& guard) {
  for (const Call* other : context.script.calls_to(call.last())) {
    if (other == &call) continue;
    const Guard its = context.guards.of(other->node);
    if (guard.others ? (its.one || its.one_per_node) : its.others) return true;
  }
  return false;
}

void check_guarded(Context& context) {
  const Script& script = context.script;
  for (const Call& call : script.calls()) {
    const bool sharded_state = call.last() == "state_dict" && context.facts.fsdp &&
                               context.is_fsdp_wrapped(context.tree.child(
                                   context.tree.child(call.node, "function"), "object"));
    if (!sharded_state && !is_collective(context, call)) continue;
    const Guard guard = context.guards.of(call.node);
    if (!guard.some() || has_counterpart(context, call, guard)) continue;
    const std::string_view who = guard.others ? "all ranks but one come"
                                 : guard.one  ? "one rank comes"
                                              : "one rank of each node comes";
    Finding& finding = context.add(
        "RANK032", Severity::kError, call.node,
        fmt::format("{} needs every rank, but only {} here: it waits until the timeout",
                    sharded_state ? "state_dict() of a sharded model" : context.quoted(call.node),
                    who));
    finding.evidence.push_back({.file = finding.file,
                                .line = static_cast<uint64_t>(context.line(guard.condition)),
                                .text = context.quoted(guard.condition)});
  }
}

// True when the function runs its parameter number `position` as a model.
bool runs_parameter(const Context& context, FunctionId id, size_t position) {
  const Function& function = context.script.functions()[static_cast<size_t>(id)];
  if (!function.class_name.empty()) ++position;
  if (position >= function.parameters.size()) return false;
  const std::string_view name = function.parameters[position];
  const std::vector<const Call*> calls = context.script.calls_to(name);
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    return call->name == name && context.tree.contains(function.node, call->node);
  });
}

void check_forward_on_one(Context& context) {
  for (const Call* ddp : context.ddp_calls()) {
    if (context.tree.is(context.script.argument(*ddp, "broadcast_buffers"), "false")) return;
  }
  for (const Call& call : context.script.calls()) {
    const NodeId callee = context.tree.child(call.node, "function");
    bool forward = context.is_wrapped(callee);
    NodeId model = callee;
    const std::vector<FunctionId> targets = context.script.targets_of(call);
    if (!forward && !targets.empty()) {
      const std::vector<NodeId> arguments =
          context.tree.children(context.tree.child(call.node, "arguments"));
      for (size_t i = 0; i < arguments.size() && !forward; ++i) {
        model = arguments[i];
        forward = context.is_wrapped(model) && runs_parameter(context, targets[0], i);
      }
    }
    if (!forward) continue;
    const Guard guard = context.guards.within_function(call.node);
    if (!guard.one) continue;
    context.add("RANK033", Severity::kWarning, call.node,
                fmt::format("one rank alone runs {}, which is wrapped by DistributedDataParallel: "
                            "its forward broadcasts the buffers and waits for the other ranks",
                            context.quoted(model)));
  }
}

}  // namespace

void check_collectives(Context& context) {
  if (!context.facts.distributed) return;
  check_guarded(context);
  if (context.facts.ddp && !context.facts.managed) check_forward_on_one(context);
}

}  // namespace shanty::lint
