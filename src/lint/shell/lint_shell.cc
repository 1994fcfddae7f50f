#include "lint/shell/lint_shell.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "lint/shell/shell_script.h"

namespace shanty::lint {

namespace {

// Without these words there is nothing to judge, and no need to parse.
bool may_train(std::string_view text) {
  for (const std::string_view word : {"torch", "python", "accelerate", "deepspeed", "NCCL_"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> lint_shell(const Source& source) {
  if (!may_train(source.text)) return {};
  Result<SyntaxTree> tree = SyntaxTree::parse(source.text, Grammar::kShell);
  if (!tree.ok()) {
    return {{.code = "SCR049",
             .severity = Severity::kNote,
             .file = source.name,
             .line = 1,
             .column = 1,
             .message = "this script was not read: " + tree.error().message}};
  }
  ShellScript script(std::move(*tree), source);
  check_variables(script);
  check_slurm(script);
  if (!script.launches().empty()) {
    check_torchrun(script);
    check_exits(script);
    check_setup(script);
  }
  std::vector<Finding> findings = script.take();
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return findings;
}

}  // namespace shanty::lint
