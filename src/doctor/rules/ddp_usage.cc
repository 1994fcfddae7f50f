#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {

void ddp_usage_rule(const Case& of, Hypotheses& out) {
  const Records unused = of.all("ddp_unused");
  const Records twice = of.all("ddp_twice");
  if (!unused.empty()) {
    Draft draft(of, "SCR101", "ddp_usage", 0.94);
    draft.show(unused).show(of.all({"ddp_unused_indices", "ddp_unused_name"})).blame(unused);
    for (const Record* record : of.all("ddp_unused_indices")) {
      draft.rank(static_cast<int>(record->number("a")));
    }
    draft.message(
        "parameters got no gradient: a layer is defined and not used in the loss, on some "
        "or all ranks");
    draft.rule_out("network: DDP itself counts the gradients before it sends them");
    draft.fix(
        "remove the layer, or find_unused_parameters=True where branches differ; names with "
        "TORCH_DISTRIBUTED_DEBUG=INFO");
    out.push_back(draft.done());
  }
  const Records named = of.all("ddp_unused_name");
  if (unused.empty() && !named.empty() && !of.trained()) {
    Draft draft(of, "SCR101", "ddp_usage", 0.6, Nearness::kStructure);
    draft.severity(Severity::kWarning).show(named).blame(named);
    draft.message(fmt::format("{} and others got no gradient in the first step",
                              named.front()->get("parameters")));
    draft.rule_out("an error: with find_unused_parameters=True these lines are only notes");
    draft.fix("find_unused_parameters=True, or take the layer out of the model");
    out.push_back(draft.done());
  }
  if (!twice.empty()) {
    Draft draft(of, "SCR101", "ddp_usage", 0.94);
    draft.show(twice).blame(twice);
    draft.message(
        "a parameter became ready twice in one step: shared between forwards, or "
        "re-entrant checkpointing");
    draft.fix("use_reentrant=False, or static_graph=True; one forward per backward");
    out.push_back(draft.done());
  }
}

}  // namespace shanty
