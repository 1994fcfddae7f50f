#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ckpt/diff.h"
#include "ckpt/lease.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "cli/ckpt_verbs.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "text/json_fields.h"
#include "text/table.h"

namespace shanty {
namespace {

using nlohmann::json;

json to_json(const ckpt::Damage& damage) {
  json out{{"file", damage.file}, {"what", damage.what}, {"message", ckpt::describe(damage)}};
  out["chunk"] = damage.chunk ? json(*damage.chunk) : json();
  return out;
}

Result<std::vector<std::string>> to_verify(const CkptArguments& arguments) {
  if (!arguments.all) {
    return std::vector<std::string>{TRY(choose_checkpoint(arguments.path, arguments.step))};
  }
  std::vector<std::string> directories;
  for (const ckpt::Listed& listed :
       TRY(ckpt::list_checkpoints(ckpt::posix_vfs(), arguments.path))) {
    if (listed.state != ckpt::CheckpointState::kInProgress) directories.push_back(listed.directory);
  }
  return directories;
}

std::string amount(const ckpt::TensorDiff& diff) {
  if (diff.change != ckpt::Change::kValues) return diff.what;
  std::string text = fmt::format("{} of {} elements", diff.changed_elements, diff.elements);
  if (diff.numeric) {
    text += fmt::format(", max {:.3g}, rms {:.3g} ({:.2g} of A's)", diff.max_abs, diff.rms,
                        diff.relative_rms);
  }
  return text;
}

}  // namespace

Result<int> ckpt_verify(const CkptArguments& arguments) {
  json out = json::array();
  bool whole = true;
  Output output;
  for (const std::string& directory : TRY(to_verify(arguments))) {
    const auto lease = ckpt::Lease::take(ckpt::posix_vfs(), directory);
    const auto damage = ckpt::verify_checkpoint(ckpt::posix_vfs(), directory, arguments.threads);
    whole = whole && damage.empty();
    json found = json::array();
    for (const ckpt::Damage& one : damage) found.push_back(to_json(one));
    out.push_back({{"directory", directory}, {"whole", damage.empty()}, {"damage", found}});
    if (arguments.json) continue;
    output.write(STDOUT_FILENO,
                 fmt::format("{}: {}\n", directory, damage.empty() ? "whole" : "DAMAGED"));
    for (const ckpt::Damage& one : damage) {
      output.write(STDOUT_FILENO, "  " + ckpt::describe(one) + "\n");
    }
  }
  if (arguments.json) {
    output.write(STDOUT_FILENO, print_json_pretty(json{{"whole", whole}, {"checkpoints", out}}));
  }
  return whole ? kExitDone : kExitProblems;
}

Result<int> ckpt_diff(const CkptArguments& arguments) {
  ckpt::Vfs& vfs = ckpt::posix_vfs();
  const std::string first = TRY(choose_checkpoint(arguments.path, std::nullopt));
  const std::string second = TRY(choose_checkpoint(arguments.other, std::nullopt));
  const auto lease_a = ckpt::Lease::take(vfs, first);
  const auto lease_b = ckpt::Lease::take(vfs, second);
  const auto a = TRY(ckpt::open_checkpoint(vfs, first));
  const auto b = TRY(ckpt::open_checkpoint(vfs, second));
  auto diffs = TRY(ckpt::diff_checkpoints(*a, *b, arguments.threads));
  const auto is_same = [](const ckpt::TensorDiff& diff) {
    return diff.change == ckpt::Change::kSame;
  };
  const auto same = std::count_if(diffs.begin(), diffs.end(), is_same);
  const auto total = static_cast<int64_t>(diffs.size());
  if (!arguments.all) std::erase_if(diffs, is_same);
  Output output;
  if (arguments.json) {
    json out = json::array();
    for (const ckpt::TensorDiff& diff : diffs) {
      out.push_back({{"name", diff.name},
                     {"change", ckpt::to_string(diff.change)},
                     {"what", diff.what},
                     {"elements", diff.elements},
                     {"changed_elements", diff.changed_elements},
                     {"max_abs", json_number(diff.max_abs)},
                     {"rms", json_number(diff.rms)},
                     {"relative_rms", json_number(diff.relative_rms)}});
    }
    output.write(STDOUT_FILENO, print_json_pretty(json{{"a", first},
                                                       {"b", second},
                                                       {"same", same},
                                                       {"tensors", total},
                                                       {"differences", out}}));
  } else {
    Table table;
    table.header = {"TENSOR", "CHANGE", "BY"};
    for (const ckpt::TensorDiff& diff : diffs) {
      table.rows.push_back({diff.name, ckpt::to_string(diff.change), amount(diff)});
    }
    if (!table.rows.empty()) output.write(STDOUT_FILENO, format_table(table));
    output.write(STDERR_FILENO,
                 fmt::format("{} of {} tensors are the same bit for bit\n", same, total));
  }
  return same == total ? kExitDone : kExitProblems;
}

}  // namespace shanty
