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

// What all processes must call in a framework. `sharded_only`: where the framework shards the
// model, that is with DeepSpeed or FSDP; with plain DDP one process may do it alone.
struct FrameworkCall {
  std::string_view module;
  std::string_view owner;  // a part of what it is called on
  std::string_view name;
  bool sharded_only = false;
};

constexpr FrameworkCall kFrameworkCalls[] = {
    {"pytorch_lightning", "trainer", "save_checkpoint"},
    {"lightning", "trainer", "save_checkpoint"},
    {"pytorch_lightning", "trainer", "fit"},
    {"pytorch_lightning", "trainer", "validate"},
    {"pytorch_lightning", "trainer", "test"},
    {"lightning", "trainer", "fit"},
    {"lightning", "trainer", "validate"},
    {"lightning", "trainer", "test"},
    {"pytorch_lightning", "self", "all_gather"},
    {"lightning", "self", "all_gather"},
    {"pytorch_lightning", "strategy", "barrier"},
    {"lightning", "strategy", "barrier"},
    {"lightning", "fabric", "save"},
    {"lightning", "fabric", "barrier"},
    {"lightning", "fabric", "all_gather"},
    {"lightning", "fabric", "all_reduce"},
    {"accelerate", "accelerator", "gather"},
    {"accelerate", "accelerator", "gather_for_metrics"},
    {"accelerate", "accelerator", "reduce"},
    {"accelerate", "accelerator", "pad_across_processes"},
    {"accelerate", "accelerator", "save_state", true},
    {"accelerate", "accelerator", "load_state", true},
    {"accelerate", "accelerator", "get_state_dict", true},
    {"deepspeed", "", "save_checkpoint"},
    {"deepspeed", "", "load_checkpoint"},
    {"deepspeed", "", "save_16bit_model"},
    {"deepspeed", "", "save_fp16_model"},
    {"transformers.Trainer", "trainer", "train"},
    {"transformers.Trainer", "trainer", "evaluate"},
    {"transformers.Trainer", "trainer", "predict"},
    {"transformers.Trainer", "trainer", "save_model", true},
};

// The names that an engine of DeepSpeed has, by convention or because initialize() gave them.
bool is_engine(const Context& context, std::string_view owner, FunctionId function) {
  if (mentions_any(owner, {"engine", "ds_"})) return true;
  for (const Assignment* one : context.script.assignments_to(owner, function)) {
    if (context.tree.text(one->node).find("deepspeed.initialize") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

const FrameworkCall* framework_call(const Context& context, const Call& call) {
  const size_t dot = call.name.rfind('.');
  if (call.imported || dot == std::string::npos || dot == 0) return nullptr;
  const std::string_view owner = std::string_view(call.name).substr(0, dot);
  for (const FrameworkCall& known : kFrameworkCalls) {
    if (call.last() != known.name || !context.script.imports(known.module)) continue;
    const bool owns = known.owner.empty()     ? is_engine(context, owner, call.function)
                      : known.owner == "self" ? owner == "self"
                                              : mentions_any(owner, {known.owner});
    if (owns && context.script.targets_of(call).empty()) return &known;
  }
  return nullptr;
}

// self.log(..., sync_dist=True), unless it says that one rank alone logs.
bool is_synchronised_log(const Context& context, const Call& call) {
  return (call.name == "self.log" || call.name == "self.log_dict") &&
         context.script.is_true(context.script.argument(call, "sync_dist")) &&
         !context.script.is_true(context.script.argument(call, "rank_zero_only"));
}

// Ray Train waits in report() until every worker has reported.
bool is_report(const Call& call) {
  return call.name == "ray.train.report" || call.name == "ray.air.session.report";
}

bool is_collective(const Context& context, const Call& call) {
  if (call.last() == "full_tensor") return call.name.find('.') != std::string::npos;
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

// accelerator.save_state() without a directory: the processes wait for each other before it is
// made.
bool names_checkpoint_itself(const Context& context, const Call& call) {
  return call.last() == "save_state" && !context.script.has_splat(call) &&
         context.script.argument(call, "output_dir", 0) == kNoNode;
}

// "if accelerator.is_main_process or distributed_type == DEEPSPEED": somebody thought of it.
bool spares_sharded(const Context& context, NodeId node) {
  for (NodeId at = context.tree.parent(node); at != kNoNode; at = context.tree.parent(at)) {
    if (context.tree.is(at, "if_statement") &&
        mentions_any(context.tree.text(context.tree.child(at, "condition")),
                     {"deepspeed", "fsdp", "zero3", "shard"})) {
      return true;
    }
  }
  return false;
}

void check_framework(Context& context) {
  for (const Call& call : context.script.calls()) {
    const FrameworkCall* known = framework_call(context, call);
    if (known == nullptr && !is_synchronised_log(context, call) && !is_report(call)) continue;
    const Guard guard = context.guards.of(call.node);
    if (!guard.some() || guard.ordered || has_counterpart(context, call, guard)) continue;
    const bool sharded_only =
        known != nullptr && known->sharded_only && !names_checkpoint_itself(context, call);
    if (sharded_only && spares_sharded(context, call.node)) continue;
    const bool may_shard =
        mentions_any(context.tree.source(), {"deepspeed", "fsdp", "zero2", "zero3", "zero_stage"});
    Finding& finding = context.add(
        "RANK032",
        !sharded_only ? Severity::kError
        : may_shard   ? Severity::kWarning
                      : Severity::kNote,
        call.node,
        sharded_only
            ? fmt::format("{} gathers the shards of all ranks with DeepSpeed and FSDP, but only "
                          "some come here: there it waits until the timeout",
                          context.quoted(call.node))
            : fmt::format("every rank must call {}, but only some come here: it waits until the "
                          "timeout",
                          context.quoted(call.node)));
    if (guard.condition == kNoNode) continue;
    finding.evidence.push_back({.file = finding.file,
                                .line = static_cast<uint64_t>(context.line(guard.condition)),
                                .text = context.quoted(guard.condition)});
  }
}

// state_dict() of what FullyShardedDataParallel holds by then. What fully_shard() made keeps its
// shards, and asks nobody.
bool gathers_shards(const Context& context, const Call& call) {
  if (call.last() != "state_dict") return false;
  const NodeId model = context.tree.child(context.tree.child(call.node, "function"), "object");
  const auto shards = [&](NodeId node) {
    return std::any_of(
        context.fsdp_calls().begin(), context.fsdp_calls().end(), [&](const Call* shard) {
          const bool is_later = shard->function == call.function && shard->node > call.node;
          return shard->node == node && shard->last() != "fully_shard" && !is_later;
        });
  };
  if (shards(model)) return true;
  for (const Assignment* one :
       context.script.assignments_to(context.tree.text(model), call.function)) {
    if (one->value != kNoNode && shards(one->value)) return true;
  }
  return false;
}

void check_guarded(Context& context) {
  const Script& script = context.script;
  for (const Call& call : script.calls()) {
    const bool sharded_state = gathers_shards(context, call);
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
    NodeId callee = context.tree.child(call.node, "function");
    if (call.last() == "forward") callee = context.tree.child(callee, "object");
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
  if (context.facts.managed) check_framework(context);
  if (!context.facts.distributed) return;
  check_guarded(context);
  if (context.facts.ddp && !context.facts.managed) check_forward_on_one(context);
}

}  // namespace shanty::lint
