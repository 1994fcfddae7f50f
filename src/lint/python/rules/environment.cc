#include <fmt/format.h>

#include "lint/debug_switches.h"
#include "lint/nccl_variables.h"
#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

void check_variable(Context& context, const Assignment& one) {
  const std::string_view name = environment_key(one.target);
  const std::string_view value = context.script.literal(one.value);
  if (name.empty() || value.empty() || context.is_conditional(one.node)) return;
  const std::string_view effect = debugging_effect(name, value);
  if (!effect.empty()) {
    context.add("PERF001", Severity::kWarning, one.node,
                fmt::format("{}={} is for debugging: {}", name, value, effect));
  } else if (name == "NCCL_IB_DISABLE" && value == "1") {
    context.add(
        "NCCL001", Severity::kNote, one.node,
        "NCCL_IB_DISABLE=1: the ranks talk over TCP even where there is InfiniBand or RoCE");
  } else if (is_slow_path(name, value)) {
    context.add("NCCL007", Severity::kNote, one.node, slow_path_message(name));
  } else if (const auto problem = check_nccl_variable(name, value)) {
    context.add(problem->code, problem->severity(), one.node, problem->message);
  }
}

void check_anomalies(Context& context) {
  for (const Call* call : context.script.calls_to("torch.autograd.set_detect_anomaly")) {
    if (!context.script.is_true(context.script.argument(*call, "mode", 0)) ||
        context.is_conditional(call->node)) {
      continue;
    }
    context.add(
        "PERF001", Severity::kWarning, call->node,
        "set_detect_anomaly(True) is for debugging: every backward keeps and checks a trace "
        "of its forward");
    return;
  }
}

}  // namespace

void check_environment(Context& context) {
  for (const Assignment& one : context.script.assignments()) check_variable(context, one);
  check_anomalies(context);
}

}  // namespace shanty::lint
