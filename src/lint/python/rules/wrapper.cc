#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

constexpr int kMaxRounds = 8;  // assignments looked through, from the loss back to the model
constexpr size_t kMaxBackwards = 32;

// The part of "model.module.loss" before ".module", or empty.
std::string_view wrapper_in(std::string_view name) {
  constexpr std::string_view kInner = ".module";
  const size_t at = name.find(kInner);
  if (at == name.npos) return {};
  const size_t end = at + kInner.size();
  return end == name.size() || name[end] == '.' ? name.substr(0, at) : std::string_view();
}

bool is_without_gradients(const Context& context, NodeId node) {
  const SyntaxTree& tree = context.tree;
  for (NodeId at = tree.parent(node); at != kNoNode; at = tree.parent(at)) {
    if (tree.is(at, "function_definition")) return false;
    if (!tree.is(at, "with_statement")) continue;
    const size_t begin = tree.begin(at);
    const std::string_view head =
        tree.source().substr(begin, tree.begin(tree.child(at, "body")) - begin);
    if (mentions_any(head, {"no_grad", "inference_mode"})) return true;
  }
  return false;
}

void add_identifiers(const SyntaxTree& tree, NodeId below, std::set<std::string_view>& out) {
  for (NodeId at = below; at < tree.subtree_end(below); ++at) {
    if (tree.is(at, "identifier")) out.insert(tree.text(at));
  }
}

// The names in `loop` out of which the loss of `backward` is made.
std::set<std::string_view> sources_of_loss(const Context& context, const Call& backward,
                                           NodeId loop) {
  std::set<std::string_view> names;
  add_identifiers(context.tree, backward.node, names);
  for (int round = 0; round < kMaxRounds; ++round) {
    const size_t before = names.size();
    for (const Assignment& one : context.script.assignments()) {
      if (context.tree.contains(loop, one.node) && names.count(one.target) != 0 &&
          !context.tree.is(one.node, "for_statement")) {
        add_identifiers(context.tree, one.node, names);
      }
    }
    if (names.size() == before) break;
  }
  return names;
}

// The call's value goes into one of `names`, or straight into backward().
bool goes_into(const Context& context, const Call& call, const Call& backward,
               const std::set<std::string_view>& names) {
  if (context.tree.contains(backward.node, call.node)) return true;
  return std::any_of(context.script.assignments().begin(), context.script.assignments().end(),
                     [&](const Assignment& one) {
                       return names.count(one.target) != 0 &&
                              context.tree.is(one.node, "assignment") &&
                              context.tree.contains(one.node, call.node);
                     });
}

// Gradients that the script reduces by itself need no wrapper.
bool reduces_by_hand(const Context& context) {
  const std::vector<const Call*> calls = context.script.calls_to("all_reduce");
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    return mentions_any(context.tree.text(call->node), {"grad"});
  });
}

void check_bypass(Context& context) {
  if (!context.facts.ddp || reduces_by_hand(context)) return;
  size_t seen = 0;
  for (const Call* backward : context.script.calls_to("backward")) {
    const NodeId loop = context.script.loop_around(backward->node);
    if (loop == kNoNode) continue;
    if (++seen > kMaxBackwards) return;
    const std::set<std::string_view> names = sources_of_loss(context, *backward, loop);
    std::vector<const Call*> parts;
    const Call* inner = nullptr;
    for (const Call& call : context.script.calls()) {
      if (!context.tree.contains(loop, call.node) || is_without_gradients(context, call.node) ||
          !goes_into(context, call, *backward, names)) {
        continue;
      }
      parts.push_back(&call);
      const bool computes =
          !mentions_any(call.last(), {"param", "state", "modules", "buffer", "norm", "device"});
      if (inner == nullptr && computes && !wrapper_in(call.name).empty()) inner = &call;
    }
    if (inner == nullptr) continue;
    const bool goes_through = std::any_of(parts.begin(), parts.end(), [&](const Call* call) {
      return call->name == wrapper_in(inner->name) ||
             context.is_wrapped(context.tree.child(call->node, "function"));
    });
    if (goes_through) continue;
    context.add("SCR014", Severity::kError, inner->node,
                fmt::format("the loss comes from {}, past the wrapper: its gradients are never "
                            "averaged, and every rank trains a model of its own",
                            context.quoted(inner->node)));
    return;
  }
}

bool is_optimizer(const Call& call) {
  constexpr std::string_view kOptim = "torch.optim.";
  return call.name.starts_with(kOptim) && call.name.find('.', kOptim.size()) == call.name.npos &&
         call.last()[0] >= 'A' && call.last()[0] <= 'Z';
}

// Sharding makes other parameters than those that the optimizer was given.
void check_early_optimizer(Context& context) {
  for (const Call* shard : context.fsdp_calls()) {
    const std::string model(context.tree.text(context.script.argument(*shard, "module", 0)));
    if (model.empty()) continue;
    for (const Call& call : context.script.calls()) {
      if (!is_optimizer(call) || call.function != shard->function || call.node > shard->node ||
          context.tree.text(context.script.argument(call, "params", 0)) !=
              model + ".parameters()") {
        continue;
      }
      context.add("SCR015", Severity::kError, call.node,
                  fmt::format("the optimizer takes the parameters of {} before they are sharded "
                              "(line {}): it steps tensors that the model no longer has",
                              model, context.line(shard->node)));
      return;
    }
  }
}

bool is_move(const Call& call) { return call.last() == "to" || call.last() == "cuda"; }

// `Net(...)`: a class, which makes its parameters on the CPU unless it says otherwise.
bool makes_on_cpu(const Context& context, NodeId value) {
  const Call* made = context.script.call_at(value);
  if (made == nullptr || mentions_any(context.tree.text(value), {"cuda", "device"})) return false;
  const bool is_class = made->last()[0] >= 'A' && made->last()[0] <= 'Z';
  if (!is_class && !made->name.starts_with("torchvision.models.")) return false;
  const std::vector<FunctionId> makers = context.script.targets_of(*made);
  return std::none_of(makers.begin(), makers.end(), [&](FunctionId maker) {
    const Function& function = context.script.functions()[static_cast<size_t>(maker)];
    return mentions_any(context.tree.text(function.node), {"cuda", ".to("});
  });
}

bool is_on_cpu(const Context& context, std::string_view model, const Call& wrapper) {
  bool is_made = false;
  for (const Assignment* one : context.script.assignments_to(model, wrapper.function)) {
    if (one->node >= wrapper.node || context.tree.contains(one->node, wrapper.node)) continue;
    if (!makes_on_cpu(context, one->value)) return false;
    is_made = true;
  }
  const auto& calls = context.script.calls();
  return is_made && std::none_of(calls.begin(), calls.end(), [&](const Call& call) {
           return call.node < wrapper.node && is_move(call) &&
                  std::string_view(call.name).substr(0, call.name.rfind('.')) == model;
         });
}

// DDP(model).to(device): NCCL is to send the weights at construction, and they are on the CPU.
void check_moved_late(Context& context) {
  if (!context.mentions("nccl") || context.mentions("set_default_device")) return;
  const SyntaxTree& tree = context.tree;
  for (const Call* wrapper : context.ddp_calls()) {
    const NodeId model = context.script.argument(*wrapper, "module", 0);
    const Call* move = context.script.call_at(tree.parent(tree.parent(wrapper->node)));
    const bool is_moved_after =
        move != nullptr && tree.is(tree.parent(wrapper->node), "attribute") && is_move(*move);
    if (!is_moved_after || !tree.is(model, "identifier") ||
        !is_on_cpu(context, tree.text(model), *wrapper)) {
      continue;
    }
    context.add("SCR017", Severity::kError, wrapper->node,
                fmt::format("{} is wrapped while it is on the CPU and moved afterwards: with NCCL "
                            "the wrapper fails when it sends the weights to the other ranks",
                            context.quoted(model)));
    return;
  }
}

}  // namespace

void check_wrapper(Context& context) {
  if (context.facts.trainer()) return;
  check_moved_late(context);
  check_bypass(context);
  check_early_optimizer(context);
}

}  // namespace shanty::lint
