#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

// The expression that picks a GPU by number in a call, or kNoNode.
NodeId index_of(const Context& context, const Call& call) {
  const Script& script = context.script;
  const std::string_view last = call.last();
  if (call.name == "torch.cuda.set_device") return script.argument(call, "device", 0);
  if (call.name == "torch.device") return script.argument(call, "index", 1);
  if (last == "cuda" || last == "to") return script.argument(call, "device", 0);
  return kNoNode;
}

// The rank in f"cuda:{rank}", or kNoNode.
NodeId index_in_string(const Context& context, NodeId node) {
  const SyntaxTree& tree = context.tree;
  if (!tree.is(node, "string") || tree.text(node).find("cuda:") == std::string_view::npos) {
    return kNoNode;
  }
  for (const NodeId part : tree.children(node)) {
    if (tree.is(part, "interpolation")) return tree.first_child(part);
  }
  return kNoNode;
}

bool report_if_global(Context& context, NodeId index) {
  const RankValue rank = context.ranks.value(index);
  if (rank.kind != RankKind::kGlobal || !rank.proven) return false;
  context.add("RANK030", Severity::kWarning, index,
              fmt::format("{} is the rank of the whole job, not a number of a GPU: on the second "
                          "node there is no such device",
                          context.quoted(index)));
  return true;
}

void check_rank_as_device(Context& context) {
  for (const Call& call : context.script.calls()) {
    if (report_if_global(context, index_of(context, call))) return;
  }
  for (NodeId node = 0; node < context.tree.size(); ++node) {
    if (report_if_global(context, index_in_string(context, node))) return;
  }
}

bool picks_a_gpu(const Context& context) {
  for (const std::string_view sign : {"set_device", "cuda:", "device_ids", "device_id",
                                      "CUDA_VISIBLE_DEVICES", "torch.cuda.device("}) {
    if (context.mentions(sign)) return true;
  }
  for (const Call& call : context.script.calls()) {
    const NodeId index = index_of(context, call);
    if (index != kNoNode && call.last() != "to") return true;
    if (call.last() == "to" && context.ranks.value(index).kind != RankKind::kUnknown) return true;
  }
  return false;
}

void check_all_on_first(Context& context) {
  if (!context.facts.ddp || picks_a_gpu(context)) return;
  if (!context.mentions("nccl")) return;
  for (const Call& call : context.script.calls()) {
    const NodeId argument = context.script.argument(call, "device", 0);
    const bool plain_cuda = call.last() == "cuda" && call.name != "torch.cuda" &&
                            argument == kNoNode && call.name.find('.') != std::string::npos;
    const bool named = (call.last() == "to" || call.name == "torch.device") &&
                       context.script.literal(argument) == "cuda";
    if (!plain_cuda && !named) continue;
    context.add("RANK031", Severity::kError, call.node,
                "every process of a node uses the first GPU: nothing gives a process its own "
                "(no set_device, no device index)");
    return;
  }
}

// `net.cuda()` puts the model on the first GPU of the node, and device_ids names another.
void check_model_beside_device(Context& context) {
  for (const std::string_view sign :
       {"set_device", "CUDA_VISIBLE_DEVICES", "torch.cuda.device(", "set_default_device"}) {
    if (context.mentions(sign)) return;
  }
  if (context.script.calls_to("torch.distributed.init_process_group").empty()) return;
  for (const Call* ddp : context.ddp_calls()) {
    const std::string_view ids = context.tree.text(context.script.argument(*ddp, "device_ids", 1));
    const NodeId model = context.script.argument(*ddp, "module", 0);
    if (!mentions_any(ids, {"rank"}) || !context.tree.is(model, "identifier")) continue;
    for (const Assignment* one :
         context.script.assignments_to(context.tree.text(model), ddp->function)) {
      const Call* moved = context.script.call_at(one->value);
      const bool is_first =
          moved != nullptr && moved->node < ddp->node && moved->last() == "cuda" &&
          context.tree.children(context.tree.child(moved->node, "arguments")).empty();
      if (!is_first) continue;
      context.add("RANK031", Severity::kError, moved->node,
                  fmt::format("the model goes to the first GPU of the node in every process, and "
                              "device_ids={} names another: DDP refuses it",
                              ids));
      return;
    }
  }
}

}  // namespace

void check_devices(Context& context) {
  if (!context.facts.distributed || context.facts.managed || context.facts.xla) return;
  check_rank_as_device(context);
  check_all_on_first(context);
  check_model_beside_device(context);
}

}  // namespace shanty::lint
