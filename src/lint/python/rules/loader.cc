#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

bool is_in_memory(const Context& context, const Call& loader) {
  const NodeId data = context.script.argument(loader, "dataset", 0);
  const std::initializer_list<std::string_view> kWords = {"TensorDataset", "random", "toy",
                                                          "MyTrainDataset"};
  if (mentions_any(context.tree.text(data), kWords)) return true;
  for (const Assignment* one :
       context.script.assignments_to(context.tree.text(data), loader.function)) {
    if (mentions_any(context.tree.text(one->value), kWords)) return true;
  }
  return false;
}

void check_workers(Context& context, const Call& loader) {
  const NodeId workers = context.script.argument(loader, "num_workers", 5);
  const SyntaxTree& tree = context.tree;
  if (workers == kNoNode || tree.text(workers) == "0") {
    context.add("LOAD020", Severity::kNote, loader.node,
                "num_workers is 0: the training process itself loads the data, and the GPU waits");
    return;
  }
  if (tree.is(workers, "integer") && context.epoch_loop() != kNoNode &&
      context.script.argument(loader, "persistent_workers") == kNoNode) {
    context.add("LOAD021", Severity::kNote, workers,
                "without persistent_workers=True all workers start anew in every epoch");
  }
}

void check_pinned(Context& context, const Call& loader) {
  if (context.script.argument(loader, "pin_memory", 7) != kNoNode) return;
  context.add("LOAD022", Severity::kNote, loader.node,
              "without pin_memory=True the copies to the GPU cannot run beside the computing");
}

void check_cpu_count(Context& context) {
  for (const Call* loader : context.script.calls_to("DataLoader")) {
    const NodeId workers = context.script.argument(*loader, "num_workers", 5);
    std::string text(context.tree.text(workers));
    for (const Assignment* one : context.script.assignments_to(text, loader->function)) {
      (text += ' ') += context.tree.text(one->value);
    }
    if (!mentions_any(text, {"cpu_count("}) || mentions_any(text, {"min(", "sched_getaffinity"})) {
      continue;
    }
    const bool divided = text.find('/') != std::string::npos;
    context.add("LOAD023", divided ? Severity::kNote : Severity::kWarning, workers,
                divided ? "cpu_count() counts the CPUs of the node, not those of the container"
                        : "every rank starts as many workers as the node has CPUs: cpu_count() "
                          "knows nothing of the container's limit nor of the other ranks");
    return;
  }
}

}  // namespace

void check_loader(Context& context) {
  check_cpu_count(context);
  if (!context.facts.gpu || context.script.calls_to("backward").empty()) return;
  for (const Call* loader : context.training_loaders()) {
    if (context.script.has_splat(*loader) || is_in_memory(context, *loader)) continue;
    check_workers(context, *loader);
    if (!context.facts.managed) check_pinned(context, *loader);
    return;
  }
}

}  // namespace shanty::lint
