#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

constexpr int kSmallBatch = 8;  // images a GPU, from which on BatchNorm's statistics are noisy

void check_unused(Context& context) {
  for (const Call* ddp : context.ddp_calls()) {
    const NodeId value = context.script.argument(*ddp, "find_unused_parameters");
    if (!context.script.is_true(value)) continue;
    context.add("SCR004", Severity::kNote, value,
                "find_unused_parameters=True walks the whole graph in every step; needed only "
                "where a forward leaves parameters out");
    return;
  }
}

void check_data_parallel(Context& context) {
  if (context.mentions("DDP") || context.mentions("DistributedDataParallel") ||
      context.facts.fsdp || context.facts.ddp) {
    return;
  }
  const bool has_group = !context.script.calls_to("init_process_group").empty();
  if (context.mentions("istributed") && !has_group) return;
  for (const Call* call : context.script.calls_to("DataParallel")) {
    if (!call->name.starts_with("torch.")) continue;
    context.add("SCR005", has_group ? Severity::kWarning : Severity::kNote, call->node,
                has_group ? "DataParallel knows nothing of the process group: each process trains "
                            "a model of its own on all GPUs of its node"
                          : "DataParallel drives all GPUs from one process: slower than "
                            "DistributedDataParallel, and bound to one node");
    return;
  }
}

std::optional<int> whole_number(const SyntaxTree& tree, NodeId node) {
  if (!tree.is(node, "integer")) return std::nullopt;
  const std::string_view text = tree.text(node);
  int value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) {
    return std::nullopt;
  }
  return value;
}

void check_batch_norm(Context& context) {
  if (!context.facts.ddp || context.mentions("SyncBatchNorm") ||
      context.mentions("convert_syncbn") || !context.mentions("BatchNorm")) {
    return;
  }
  for (const Call* loader : context.training_loaders()) {
    const NodeId size = context.script.argument(*loader, "batch_size", 1);
    const std::optional<int> batch = whole_number(context.tree, size);
    if (!batch || *batch > kSmallBatch) continue;
    context.add(
        "SCR008", Severity::kNote, size,
        fmt::format("BatchNorm takes its statistics from the {} samples of one GPU", *batch));
    return;
  }
}

}  // namespace

void check_model(Context& context) {
  check_unused(context);
  if (context.facts.managed) return;
  check_data_parallel(context);
  check_batch_norm(context);
}

}  // namespace shanty::lint
