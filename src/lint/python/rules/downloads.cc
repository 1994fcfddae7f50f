#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

void check_downloads(Context& context) {
  if (!context.facts.distributed || context.facts.trainer()) return;
  const Call* first = nullptr;
  for (const Call& call : context.script.calls()) {
    if (!context.script.is_true(context.script.argument(call, "download"))) continue;
    const Guard guard = context.guards.of(call.node);
    if (guard.some() || guard.ordered) return;  // somebody thought of it
    if (!guard.callers_unknown && first == nullptr) first = &call;
  }
  if (first == nullptr) return;
  context.add("RANK034", Severity::kWarning, first->node,
              fmt::format("every rank downloads {} at the same time into the same directory",
                          first->last()));
}

}  // namespace shanty::lint
