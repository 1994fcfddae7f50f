#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

const std::initializer_list<std::string_view> kCheckpoints = {
    "ckpt",   "check",    "state",    "weight", "model",
    "resume", "snapshot", "pretrain", ".pt",    "restore"};

// What is loaded and what it is called: a checkpoint, or a tensor of data?
bool loads_checkpoint(const Context& context, const Call& load) {
  return mentions_any(context.tree.text(load.node), kCheckpoints) ||
         mentions_any(context.given_name(load), kCheckpoints);
}

void check_map_location(Context& context) {
  for (const Call* load : context.script.calls_to("torch.load")) {
    if (context.script.argument(*load, "map_location", 1) != kNoNode ||
        context.script.has_splat(*load) || !loads_checkpoint(context, *load) ||
        context.guards.of(load->node).one) {
      continue;
    }
    Finding& finding = context.add(
        "CKPT022", Severity::kWarning, load->node,
        "every rank loads the tensors onto the GPU that saved them, the first one of its node");
    const NodeId arguments = context.tree.child(load->node, "arguments");
    const std::vector<NodeId> given = context.tree.children(arguments);
    if (!given.empty()) {
      const size_t end = context.tree.end(given.back());
      finding.edits.push_back({.begin = end, .end = end, .text = ", map_location=\"cpu\""});
    }
  }
}

void check_trust(Context& context) {
  for (const Call* load : context.script.calls_to("torch.load")) {
    const NodeId value = context.script.argument(*load, "weights_only");
    if (!context.tree.is(value, "false")) continue;
    const NodeId path = context.script.argument(*load, "f", 0);
    std::string from(context.tree.text(path));
    for (const Assignment* one : context.script.assignments_to(from, load->function)) {
      (from += ' ') += context.tree.text(one->value);
    }
    const bool foreign = mentions_any(from, {"url", "download", "hub"});
    context.add("CKPT023", foreign ? Severity::kWarning : Severity::kNote, value,
                foreign ? "weights_only=False runs code that a downloaded file brings"
                        : "weights_only=False runs code that the file brings; fine only for files "
                          "of your own");
    return;
  }
}

}  // namespace

void check_loading(Context& context) {
  check_trust(context);
  if (context.facts.distributed && context.facts.gpu && !context.facts.trainer() &&
      !context.facts.xla) {
    check_map_location(context);
  }
}

}  // namespace shanty::lint
