#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

bool is_sampler(const Call& call) { return call.last().ends_with("DistributedSampler"); }

// The start of the first line in a loop's body, and the indentation there.
struct BodyStart {
  size_t offset = 0;
  std::string indentation;
};

std::optional<BodyStart> body_start(const SyntaxTree& tree, NodeId loop) {
  const NodeId body = tree.child(loop, "body");
  if (body == kNoNode) return std::nullopt;
  const size_t at = tree.begin(body);
  const size_t line = tree.source().substr(0, at).rfind('\n') + 1;
  const std::string_view before = tree.source().substr(line, at - line);
  if (before.find_first_not_of(" \t") != std::string_view::npos) return std::nullopt;
  return BodyStart{at, std::string(before)};
}

// `sampler.set_epoch(epoch)` as the first line of the loop over epochs, where both names are seen.
void add_set_epoch(const Context& context, Finding& finding, const Call& sampler, NodeId loop) {
  const SyntaxTree& tree = context.tree;
  const NodeId epoch = tree.child(loop, "left");
  const NodeId assignment = tree.parent(sampler.node);
  const NodeId name = tree.child(assignment, "left");
  const auto start = body_start(tree, loop);
  if (!tree.is(loop, "for_statement") || !tree.is(epoch, "identifier") || !start ||
      !tree.is(assignment, "assignment") || !tree.is(name, "identifier") ||
      context.script.function_of(loop) != sampler.function || tree.begin(loop) < tree.begin(name)) {
    return;
  }
  const std::string_view variable = tree.text(name);
  // Assigned in a branch, or in several: then it is None elsewhere.
  const bool may_be_none = context.script.assignments_to(variable, sampler.function).size() > 1 ||
                           tree.parent(tree.parent(assignment)) != tree.parent(loop);
  const std::string call = fmt::format("{}.set_epoch({})", variable, tree.text(epoch));
  finding.edits.push_back({.begin = start->offset,
                           .end = start->offset,
                           .text = may_be_none
                                       ? fmt::format("if {} is not None:\n{}    {}\n{}", variable,
                                                     start->indentation, call, start->indentation)
                                       : fmt::format("{}\n{}", call, start->indentation)});
}

void check_set_epoch(Context& context) {
  // Where the steps are in another file, set_epoch() may be there too.
  const NodeId steps = context.training_loop();
  if (steps == kNoNode) return;
  // "while step < max_steps: for batch in loader" goes through epochs, too.
  const NodeId named = context.epoch_loop();
  const NodeId loop = named == kNoNode && context.tree.is(steps, "for_statement")
                          ? context.script.loop_around(steps)
                          : named;
  if (loop == kNoNode || !context.script.calls_to("set_epoch").empty()) return;
  for (const Call& call : context.script.calls()) {
    if (!is_sampler(call)) continue;
    const std::string_view name = context.given_name(call);
    // Made anew in each round of a loop that is not called after epochs.
    if (named == kNoNode && context.tree.contains(loop, call.node)) continue;
    if (context.tree.is(context.script.argument(call, "shuffle", 3), "false") ||
        mentions_any(name, {"val", "test", "eval"}) ||
        mentions_any(context.tree.text(context.script.argument(call, "dataset", 0)),
                     {"val", "test", "eval"})) {
      continue;
    }
    Finding& finding = context.add(
        "SCR001", Severity::kWarning, call.node,
        fmt::format("nothing calls set_epoch() of this {}: every epoch has the same order, and "
                    "each rank sees the same batches again",
                    call.last()));
    add_set_epoch(context, finding, call, loop);
    return;
  }
}

// Signs that the data is divided in some other way, or need not be.
bool shards_by_itself(const Context& context) {
  for (const std::string_view sign :
       {"istributedSampler", "IterableDataset", "split_dataset_by_node", "webdataset", "WebDataset",
        "wds.", ".shard(", "dali", "ffcv", "StreamingDataset", "num_replicas", "BatchSampler",
        "MapDataPipe", "torchdata", "infinite"}) {
    if (context.mentions(sign)) return true;
  }
  // Different seeds: every rank draws an order of its own.
  for (const Call& call : context.script.calls()) {
    if (call.last() != "manual_seed" && call.last() != "seed") continue;
    if (mentions_any(context.tree.text(context.tree.child(call.node, "arguments")), {"rank"})) {
      return true;
    }
  }
  return false;
}

// **kwargs whose values are all written here, none of them a sampler.
bool hides_sampler(const Context& context, const Call& loader) {
  const SyntaxTree& tree = context.tree;
  for (const NodeId argument : tree.children(tree.child(loader.node, "arguments"))) {
    if (tree.is(argument, "list_splat")) return true;
    if (!tree.is(argument, "dictionary_splat")) continue;
    const std::string_view name = tree.text(tree.first_child(argument));
    const auto given = context.script.assignments_to(name, loader.function);
    const bool is_written =
        !given.empty() && std::all_of(given.begin(), given.end(), [&](const Assignment* one) {
          return tree.text(one->value).starts_with('{') &&
                 tree.text(one->value).find("sampler") == std::string_view::npos;
        });
    const std::string changed = fmt::format("{}.update", name);
    const std::string set = fmt::format("{}[", name);
    if (!is_written || context.mentions(changed) || context.mentions(set)) return true;
  }
  return false;
}

bool is_divided(const Context& context, const Call& loader) {
  if (hides_sampler(context, loader)) return true;
  for (const std::string_view name : {"sampler", "batch_sampler"}) {
    const NodeId value = context.script.argument(loader, name);
    if (value != kNoNode && !context.tree.is(value, "none")) return true;
  }
  const NodeId data = context.script.argument(loader, "dataset", 0);
  const std::initializer_list<std::string_view> kWords = {
      "rank", "world", "shard", "rand", "fake", "dummy", "toy", "synthetic", "replica"};
  if (mentions_any(context.tree.text(data), kWords)) return true;
  for (const Assignment* one :
       context.script.assignments_to(context.tree.text(data), loader.function)) {
    if (one->value == kNoNode || mentions_any(context.tree.text(one->value), kWords)) return true;
  }
  return false;
}

void check_missing(Context& context) {
  const bool by_engine = context.facts.own_loop && !context.mentions("training_data");
  if (!(context.facts.ddp || by_engine) || context.script.calls_to("backward").empty()) return;
  if (shards_by_itself(context)) return;
  for (const Call* loader : context.training_loaders()) {
    if (is_divided(context, *loader)) continue;
    context.add("SCR002", Severity::kWarning, loader->node,
                "this loader has no DistributedSampler: every rank goes through the whole dataset, "
                "so that more GPUs save no time");
    return;
  }
}

void check_shuffle(Context& context) {
  const SyntaxTree& tree = context.tree;
  for (const Call* call : context.script.calls_to("DataLoader")) {
    const NodeId shuffle = context.script.argument(*call, "shuffle");
    const NodeId sampler = context.script.argument(*call, "sampler");
    if (!context.script.is_true(shuffle) || sampler == kNoNode || tree.is(sampler, "none"))
      continue;
    const bool named = tree.is(sampler, "identifier");
    const auto given = context.script.assignments_to(tree.text(sampler), call->function);
    if (named && !std::any_of(given.begin(), given.end(), [&](const Assignment* one) {
          return one->value != kNoNode && !tree.is(one->value, "none");
        })) {
      continue;
    }
    Finding& finding = context.add("SCR003", Severity::kError, shuffle,
                                   "shuffle=True together with a sampler: DataLoader raises "
                                   "ValueError, since the sampler decides the order");
    finding.edits.push_back(
        {.begin = tree.begin(shuffle),
         .end = tree.end(shuffle),
         .text = named ? fmt::format("({} is None)", tree.text(sampler)) : std::string("False")});
  }
}

// DistributedSampler(WeightedRandomSampler(...)): it deals out 0 to n-1, and asks the inner one
// only for its length.
void check_nested(Context& context) {
  for (const Call* call : context.script.calls_to("torch.utils.data.DistributedSampler")) {
    const NodeId data = context.script.argument(*call, "dataset", 0);
    const auto makes_sampler = [&](NodeId node) {
      const Call* made = context.script.call_at(node);
      return made != nullptr && made->last().ends_with("Sampler");
    };
    bool nested = makes_sampler(data);
    for (const Assignment* one :
         context.script.assignments_to(context.tree.text(data), call->function)) {
      nested |= one->node < call->node && makes_sampler(one->value);
    }
    if (!nested) continue;
    context.add("SCR016", Severity::kWarning, data,
                fmt::format("DistributedSampler takes only the length of {}: what that sampler "
                            "would choose is not looked at",
                            context.quoted(data)));
    return;
  }
}

// Ray's prepare_data_loader() puts a DistributedSampler in, and leaves its epoch to the script.
void check_prepared(Context& context) {
  const NodeId loop = context.epoch_loop();
  if (loop == kNoNode || context.script.calls_to("backward").empty() ||
      !context.script.calls_to("set_epoch").empty()) {
    return;
  }
  for (const Call* call : context.script.calls_to("prepare_data_loader")) {
    if (!call->name.starts_with("ray.train.torch") ||
        mentions_any(context.given_name(*call), {"val", "test", "eval"}) ||
        mentions_any(context.tree.text(context.script.argument(*call, "data_loader", 0)),
                     {"val", "test", "eval"})) {
      continue;
    }
    context.add("SCR001", Severity::kWarning, call->node,
                "prepare_data_loader() puts a DistributedSampler in, and nothing calls its "
                "set_epoch(): every epoch has the same order, and each rank sees the same batches "
                "again");
    return;
  }
}

// Trainer(use_distributed_sampler=False), and no sampler of the script's own.
void check_switched_off(Context& context) {
  const std::vector<const Call*> loaders = context.training_loaders();
  if (loaders.empty() || shards_by_itself(context) ||
      std::any_of(loaders.begin(), loaders.end(),
                  [&](const Call* loader) { return is_divided(context, *loader); })) {
    return;
  }
  for (const Call* trainer : context.script.calls_to("Trainer")) {
    for (const std::string_view name : {"use_distributed_sampler", "replace_sampler_ddp"}) {
      const NodeId value = context.script.argument(*trainer, name);
      if (!context.tree.is(value, "false")) continue;
      context.add("SCR002", Severity::kWarning, value,
                  fmt::format("{}=False, and no loader here has a sampler that divides the data: "
                              "every rank goes through the whole dataset",
                              name));
      return;
    }
  }
}

}  // namespace

void check_samplers(Context& context) {
  check_shuffle(context);
  if (context.script.imports("ray.train")) check_prepared(context);
  if (context.facts.trainer()) check_switched_off(context);
  if (context.facts.trainer() || context.facts.xla || !context.facts.distributed) return;
  // Accelerate's prepare() divides loaders and tells them the epoch; DeepSpeed leaves a loader that
  // it did not make to the script.
  if (context.facts.own_loop && context.script.calls_to("deepspeed.initialize").empty()) return;
  check_nested(context);
  check_set_epoch(context);
  check_missing(context);
}

}  // namespace shanty::lint
