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

}  // namespace

void check_downloads(Context& context) {
  if (!context.facts.distributed || context.facts.trainer()) return;
  const Call* first = nullptr;
  for (const Call& call : context.script.calls()) {
    if (!context.script.is_true(context.script.argument(call, "download"))) continue;
    const Guard guard = context.guards.of(call.node);
    // Somebody thought of it.
    if (guard.some() || guard.ordered || is_between_barriers(context, call)) return;
    if (!guard.callers_unknown && first == nullptr) first = &call;
  }
  if (first == nullptr) return;
  context.add("RANK034", Severity::kWarning, first->node,
              fmt::format("every rank downloads {} at the same time into the same directory",
                          first->last()));
}

}  // namespace shanty::lint
