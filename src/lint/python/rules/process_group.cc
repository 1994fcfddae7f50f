#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

constexpr double kShortestTimeout_s = 300;  // an image of 10 GB takes minutes to pull

void check_late_variables(Context& context) {
  for (const Call* init : context.script.calls_to("init_process_group")) {
    for (const Assignment& one : context.script.assignments()) {
      if (one.function != init->function || one.node < init->node) continue;
      if (!environment_key(one.target).starts_with("NCCL_")) continue;
      context.add(
          "RUN025", Severity::kWarning, one.node,
          fmt::format("{} is set after init_process_group (line {}): NCCL may have read its "
                      "environment already",
                      one.target, context.line(init->node)));
      return;
    }
  }
}

// The seconds of timedelta(minutes=2) where they are written in.
std::optional<double> seconds_of(const Context& context, NodeId node) {
  const Call* delta = context.script.call_at(node);
  if (delta == nullptr || delta->last() != "timedelta") return std::nullopt;
  double total = 0;
  bool any = false;
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"milliseconds", 0.001}, {"seconds", 1}, {"minutes", 60}, {"hours", 3600}, {"days", 86400}};
  for (const NodeId argument : context.tree.children(context.tree.child(node, "arguments"))) {
    const std::string_view name = context.tree.text(context.tree.child(argument, "name"));
    const std::string_view text = context.tree.text(context.tree.child(argument, "value"));
    const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                   [&](const auto& u) { return u.first == name; });
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (unit == std::end(kUnits) || error != std::errc{} || end != text.data() + text.size()) {
      return std::nullopt;
    }
    total += value * unit->second;
    any = true;
  }
  return any ? std::optional(total) : std::nullopt;
}

void check_timeout(Context& context, const Call& init) {
  const NodeId timeout = context.script.argument(init, "timeout");
  const std::optional<double> seconds = seconds_of(context, timeout);
  if (!seconds || *seconds >= kShortestTimeout_s) return;
  context.add("RUN026", Severity::kWarning, timeout,
              fmt::format("ranks wait {:g} s for each other: less than a node may take to pull its "
                          "image, to load a checkpoint or to evaluate",
                          *seconds));
}

void check_backend(Context& context, const Call& init) {
  const NodeId backend = context.script.argument(init, "backend", 0);
  if (context.script.literal(backend) != "gloo" || context.mentions("nccl")) return;
  const bool on_gpu = !context.script.calls_to("torch.cuda.set_device").empty() ||
                      context.mentions(".cuda()") || context.mentions("cuda:{");
  if (!on_gpu || !context.facts.ddp) return;
  context.add("RUN028", Severity::kWarning, backend,
              "gloo carries the gradients of GPUs through the CPU: with NCCL they go over NVLink "
              "and RDMA");
}

void check_destroyed(Context& context, const Call& init) {
  if (context.mentions("destroy_process_group") || context.facts.managed) return;
  // A module that others import: they may do it.
  const bool is_script = init.function == kModule && !context.script.calls_to("backward").empty();
  if (!context.mentions("__main__") && !is_script) return;
  context.add("RUN027", Severity::kNote, init.node,
              "nothing calls destroy_process_group(): torch warns at exit, and a rank that is late "
              "may hang in the end");
}

}  // namespace

void check_process_group(Context& context) {
  if (context.facts.alone) return;
  check_late_variables(context);
  const std::vector<const Call*> inits = context.script.calls_to("init_process_group");
  for (const Call* init : inits) {
    if (!init->name.starts_with("torch.distributed.")) continue;
    check_timeout(context, *init);
    check_backend(context, *init);
    check_destroyed(context, *init);
    return;
  }
}

}  // namespace shanty::lint
