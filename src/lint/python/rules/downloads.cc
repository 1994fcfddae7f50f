#include <algorithm>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

// The others wait in a barrier before the download, and the one that downloads joins it after.
bool is_between_barriers(const Context& context, const Call& download) {
  bool others_before = false;
  bool one_after = false;
  for (const Call* barrier : context.script.calls_to("barrier")) {
    if (barrier->function != download.function) continue;
    const Guard guard = context.guards.within_function(barrier->node);
    others_before |= barrier->node < download.node && guard.others;
    one_after |= barrier->node > download.node && (guard.one || guard.one_per_node);
  }
  return others_before && one_after;
}

constexpr int kMaxCallers = 4;  // functions between a trainer of Ray and the download

// Whether a trainer of Ray is handed this function, or one that calls it: then each worker runs it.
bool runs_in_workers(const Context& context, FunctionId function, int depth = kMaxCallers) {
  if (function == kModule || depth == 0) return false;
  const std::vector<Script::Use> uses = context.script.uses_of(function);
  return std::any_of(uses.begin(), uses.end(), [&](const Script::Use& use) {
    if (use.call != nullptr) return runs_in_workers(context, use.call->function, depth - 1);
    const Call* taker = context.script.call_at(context.tree.ancestor(use.node, "call"));
    return taker != nullptr && taker->last().ends_with("Trainer");
  });
}

}  // namespace

void check_downloads(Context& context) {
  const bool in_ray = context.script.imports("ray.train");
  if (!in_ray && (!context.facts.distributed || context.facts.trainer())) return;
  const Call* first = nullptr;
  for (const Call& call : context.script.calls()) {
    if (!context.script.is_true(context.script.argument(call, "download"))) continue;
    const Guard guard = context.guards.of(call.node);
    // Somebody thought of it.
    if (guard.some() || guard.ordered || is_between_barriers(context, call)) return;
    const bool by_all = in_ray ? runs_in_workers(context, call.function) : !guard.callers_unknown;
    if (by_all && first == nullptr) first = &call;
  }
  if (first == nullptr) return;
  context.add("RANK034", Severity::kWarning, first->node,
              fmt::format("every rank downloads {} at the same time into the same directory",
                          first->last()));
}

}  // namespace shanty::lint
