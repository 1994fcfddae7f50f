#include "lint/python/lint_python.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "lint/python/rules/rules.h"

namespace shanty::lint {

namespace {

using Rule = void (*)(Context&);
constexpr Rule kRules[] = {
    check_local_rank, check_devices,       check_collectives, check_downloads,
    check_samplers,   check_model,         check_batch,       check_step,
    check_saving,     check_loading,       check_loader,      check_checkpoint_content,
    check_launch,     check_process_group, check_environment, check_decisions,
    check_wrapper,    check_updates,
};

Finding unreadable(const Source& source, Place place, std::string why) {
  return {.code = "SCR049",
          .severity = Severity::kNote,
          .file = source.name,
          .line = place.line,
          .column = place.column,
          .message = "this script was not read whole: " + std::move(why)};
}

// Without these words there is nothing to judge, and no need to parse.
bool may_train(std::string_view text) {
  const auto has = [text](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  };
  const bool has_framework = has("torch") || has("lightning") || has("accelerate") ||
                             has("deepspeed") || has("transformers");
  return has_framework && (has("backward") || has("init_process_group") || has("DataParallel") ||
                           has("DDP") || has("FSDP") || has("fully_shard") || has("rainer") ||
                           has(".fit(") || has("LightningModule"));
}

// A test starts its own small world, with ports and addresses written in.
bool is_test(std::string_view name) {
  return name.substr(name.rfind('/') + 1).starts_with("test_");
}

}  // namespace

std::vector<Finding> lint_python(const Source& source) {
  if (!may_train(source.text) || is_test(source.name)) return {};
  Result<SyntaxTree> tree = SyntaxTree::parse(source.text, Grammar::kPython);
  if (!tree.ok()) return {unreadable(source, {1, 1}, tree.error().message)};
  const Script script(std::move(*tree));
  Context context(script, source.name);
  if (!context.facts.trains) return {};
  for (const Rule rule : kRules) rule(context);
  std::vector<Finding> findings = context.take();
  const size_t broken = script.tree().broken();
  if (broken != SyntaxTree::kNoOffset) {
    const Place place = script.tree().place_of(broken);
    findings.push_back(unreadable(
        source, place,
        fmt::format("line {} is no Python, and what follows may be missed", place.line)));
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return findings;
}

}  // namespace shanty::lint
