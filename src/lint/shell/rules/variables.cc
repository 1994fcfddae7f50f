#include <algorithm>

#include <fmt/format.h>

#include "lint/debug_switches.h"
#include "lint/nccl_variables.h"
#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

void check_by_table(ShellScript& script, const ShellVariable& variable) {
  const auto problem = check_nccl_variable(variable.name, variable.value);
  if (!problem) return;
  const bool is_value = problem->new_name.empty() && variable.value_node != kNoNode;
  Finding& finding = script.add(problem->code, problem->severity(),
                                is_value ? variable.value_node : variable.node, problem->message);
  const SyntaxTree& tree = script.tree();
  const size_t name_at = tree.begin(variable.node);
  if (!problem->new_name.empty()) {
    finding.edits.push_back({name_at, name_at + variable.name.size(), problem->new_name});
  }
  if (!problem->new_value.empty() && variable.value_node != kNoNode) {
    finding.edits.push_back(
        {tree.begin(variable.value_node), tree.end(variable.value_node), problem->new_value});
  }
}

// Given another value further down, before anything is started.
bool is_overwritten(const ShellScript& script, const ShellVariable& variable) {
  const NodeId first_launch =
      script.launches().empty() ? kNoNode : script.launches().front().command->node;
  const NodeId block = script.tree().parent(script.tree().parent(variable.node));
  return std::any_of(script.variables().begin(), script.variables().end(),
                     [&](const ShellVariable& other) {
                       return other.name == variable.name && !other.for_ranks && !other.appends &&
                              other.node > variable.node && other.node < first_launch &&
                              script.tree().parent(script.tree().parent(other.node)) == block;
                     });
}

}  // namespace

void check_variables(ShellScript& script) {
  for (const ShellVariable& variable : script.variables()) {
    if (!variable.literal || is_overwritten(script, variable)) continue;
    const std::string_view effect = debugging_effect(variable.name, variable.value);
    if (!effect.empty() && !script.launches().empty()) {
      script.add("PERF001", Severity::kWarning, variable.node,
                 fmt::format("{}={} is for debugging: {}", variable.name, variable.value, effect));
      continue;
    }
    if (!variable.name.starts_with("NCCL_")) continue;
    if (variable.name == "NCCL_IB_DISABLE" && variable.value == "1") {
      const bool has_hca = script.value_of("NCCL_IB_HCA").has_value();
      script.add("NCCL001", has_hca ? Severity::kWarning : Severity::kNote, variable.node,
                 has_hca ? "NCCL_IB_DISABLE=1 beside NCCL_IB_HCA: the ranks talk over TCP"
                         : "NCCL_IB_DISABLE=1: the ranks talk over TCP even where there is "
                           "InfiniBand or RoCE");
      continue;
    }
    if (is_slow_path(variable.name, variable.value)) {
      script.add("NCCL007", Severity::kNote, variable.node, slow_path_message(variable.name));
      continue;
    }
    check_by_table(script, variable);
  }
}

}  // namespace shanty::lint
