#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/units.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"
#include "cli/ckpt_verbs.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "text/json_fields.h"
#include "text/table.h"
#include "text/terminal.h"

namespace shanty {
namespace {

using ckpt::Listed;
using nlohmann::json;

std::string state_text(const Listed& listed) {
  switch (listed.state) {
    case ckpt::CheckpointState::kCommitted:
      if (listed.pinned) return "milestone";
      return listed.best ? "best" : "committed";
    case ckpt::CheckpointState::kInProgress:
      return "in progress";
    case ckpt::CheckpointState::kDamaged:
      return "damaged";
  }
  return "?";
}

json to_json(const Listed& listed) {
  json out{{"directory", listed.directory},
           {"step", listed.id.step},
           {"generation", listed.id.generation},
           {"attempt", listed.id.attempt},
           {"state", state_text(listed)},
           {"pinned", listed.pinned},
           {"best", listed.best}};
  if (!listed.problem.empty()) out["problem"] = listed.problem;
  if (listed.summary) {
    out["world_size"] = listed.summary->world_size;
    out["bytes"] = listed.summary->bytes;
    out["tensors"] = listed.summary->tensors;
    out["run"] = listed.summary->run;
    out["created_unix_ns"] = listed.summary->created_unix_ns;
    out["created"] = format_utc(listed.summary->created_unix_ns);
    out["metrics"] = listed.summary->score.metrics;
  }
  return out;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string metrics_text(const Listed& listed) {
  std::string text;
  if (!listed.summary) return text;
  for (const auto& [name, value] : listed.summary->score.metrics) {
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

std::vector<std::string> row(const Listed& listed, bool with_metrics, int64_t now_unix_ns) {
  std::vector<std::string> cells = {fmt::format("{}", listed.id.step)};
  if (listed.summary) {
    const double age = ns_to_seconds(now_unix_ns - listed.summary->created_unix_ns);
    cells.insert(cells.end(), {format_duration(std::max(0.0, age)),
                               fmt::format("{}", listed.summary->world_size),
                               format_bytes(listed.summary->bytes)});
  } else {
    cells.insert(cells.end(), {"-", "-", "-"});
  }
  cells.push_back(state_text(listed));
  if (with_metrics) cells.push_back(metrics_text(listed));
  cells.push_back(base_name(listed.directory) +
                  (listed.problem.empty() ? "" : ": " + listed.problem));
  return cells;
}

std::string list_table(const std::vector<Listed>& all, size_t width) {
  Table table;
  const bool with_metrics = std::any_of(
      all.begin(), all.end(), [](const Listed& listed) { return !metrics_text(listed).empty(); });
  table.header = {"STEP", "AGE", "WORLD", "SIZE", "STATE"};
  if (with_metrics) table.header.push_back("METRICS");
  table.header.push_back("DIRECTORY");
  table.right_aligned = {true, true, true, true};
  const int64_t now = system_clock().unix_time_ns();
  for (const Listed& listed : all) table.rows.push_back(row(listed, with_metrics, now));
  return format_table(table, {.width = width});
}

}  // namespace

Result<std::string> choose_checkpoint(const std::string& path, std::optional<uint64_t> step) {
  ckpt::Vfs& vfs = ckpt::posix_vfs();
  if (!TRY(vfs.info(path)).is_directory) {
    return Error{"looking for checkpoints in " + path + ": there is no such directory"};
  }
  if (TRY(vfs.info(path + "/" + std::string(ckpt::kManifestName))).exists) return path;
  std::vector<std::string> others;
  for (const Listed& listed : TRY(ckpt::list_checkpoints(vfs, path))) {
    if (listed.state != ckpt::CheckpointState::kCommitted) continue;
    if (!step || listed.id.step == *step) return listed.directory;
    others.push_back(fmt::format("{}", listed.id.step));
  }
  if (!others.empty()) {
    return Error{fmt::format("no committed checkpoint of step {} in {}; there are {}", *step, path,
                             fmt::join(others, ", "))};
  }
  return Error{"no committed checkpoint in " + path};
}

Result<int> ckpt_ls(const CkptArguments& arguments) {
  ckpt::Vfs& vfs = ckpt::posix_vfs();
  if (!TRY(vfs.info(arguments.path)).is_directory) {
    return Error{"listing " + arguments.path + ": there is no such directory"};
  }
  const auto all = TRY(ckpt::list_checkpoints(vfs, arguments.path));
  Output output;
  if (arguments.json) {
    json out = json::array();
    for (const Listed& listed : all) out.push_back(to_json(listed));
    output.write(STDOUT_FILENO, print_json_pretty(json{{"checkpoints", out}}));
  } else if (all.empty()) {
    output.write(STDERR_FILENO, "there are no checkpoints in " + arguments.path + "\n");
  } else {
    const TerminalTraits traits = terminal_traits(STDOUT_FILENO);
    output.write(STDOUT_FILENO,
                 list_table(all, traits.tty ? static_cast<size_t>(traits.width) : 0));
  }
  const bool damaged = std::any_of(all.begin(), all.end(), [](const Listed& listed) {
    return listed.state == ckpt::CheckpointState::kDamaged;
  });
  return damaged ? kExitProblems : kExitDone;
}

Result<int> ckpt_show(const CkptArguments& arguments) {
  const std::string directory = TRY(choose_checkpoint(arguments.path, arguments.step));
  const auto reader = TRY(ckpt::open_checkpoint(ckpt::posix_vfs(), directory));
  const ckpt::Manifest& manifest = reader->manifest();
  Output output;
  if (arguments.json) {
    json out{{"directory", directory},
             {"step", manifest.id.step},
             {"generation", manifest.id.generation},
             {"run", manifest.run},
             {"world_size", manifest.world_size},
             {"created", format_utc(manifest.created_unix_ns)},
             {"global", parse_json(manifest.global_json).value_or(json::object())},
             {"aliases", manifest.aliases}};
    for (const ckpt::StoredFile& file : manifest.files) {
      out["files"].push_back({{"path", file.path}, {"rank", file.rank}, {"bytes", file.bytes}});
    }
    for (const auto& [name, tensor] : manifest.tensors) {
      out["tensors"][name] = {{"dtype", tensor.dtype},
                              {"shape", tensor.shape},
                              {"group", tensor.group == ckpt::Group::kModel ? "model" : "optim"},
                              {"pieces", tensor.pieces.size()}};
    }
    output.write(STDOUT_FILENO, print_json_pretty(out));
    return kExitDone;
  }
  uint64_t bytes = 0;
  for (const ckpt::StoredFile& file : manifest.files) bytes += file.bytes;
  output.write(
      STDOUT_FILENO,
      fmt::format("{}\n  step {}, generation {}, {} rank{}, {} in {} files, {}\n"
                  "  run {}\n  state {}\n\n",
                  directory, manifest.id.step, manifest.id.generation, manifest.world_size,
                  manifest.world_size == 1 ? "" : "s", format_bytes(bytes), manifest.files.size(),
                  format_utc(manifest.created_unix_ns), manifest.run, manifest.global_json));
  Table table;
  table.header = {"TENSOR", "GROUP", "TYPE", "SHAPE", "PIECES"};
  table.right_aligned = {false, false, false, false, true};
  for (const auto& [name, tensor] : manifest.tensors) {
    table.rows.push_back({name, tensor.group == ckpt::Group::kModel ? "model" : "optim",
                          tensor.dtype, fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                          fmt::format("{}", tensor.pieces.size())});
  }
  for (const auto& [name, target] : manifest.aliases) {
    table.rows.push_back({name, "", "", "as " + target, ""});
  }
  output.write(STDOUT_FILENO, format_table(table));
  return kExitDone;
}

Result<int> ckpt_prune(const CkptArguments& arguments) {
  ckpt::Vfs& vfs = ckpt::posix_vfs();
  if (!TRY(vfs.info(arguments.path)).is_directory) {
    return Error{"pruning " + arguments.path + ": there is no such directory"};
  }
  const auto is_whole = [&](const Listed& listed) {
    return ckpt::verify_checkpoint(vfs, listed.directory, arguments.threads).empty();
  };
  std::optional<ckpt::BestRule> best;
  if (arguments.keep_best > 0) {
    best = {
        .metric = arguments.best, .highest = arguments.mode == "max", .keep = arguments.keep_best};
  }
  const auto removed = TRY(ckpt::prune(
      vfs, arguments.path,
      {.keep = arguments.keep, .dry_run = arguments.dry_run, .best = best, .is_whole = is_whole}));
  Output output;
  if (arguments.json) {
    json out = json::array();
    for (const Listed& listed : removed) out.push_back(to_json(listed));
    output.write(STDOUT_FILENO,
                 print_json_pretty(json{{"removed", out}, {"dry_run", arguments.dry_run}}));
    return kExitDone;
  }
  uint64_t bytes = 0;
  for (const Listed& listed : removed) {
    bytes += listed.summary ? listed.summary->bytes : 0;
    output.write(
        STDOUT_FILENO,
        fmt::format("{} {}\n", arguments.dry_run ? "would remove" : "removed", listed.directory));
  }
  output.write(STDERR_FILENO, removed.empty()
                                  ? std::string("nothing to remove\n")
                                  : fmt::format("{} {}{}\n", format_bytes(bytes),
                                                arguments.dry_run ? "would be freed" : "freed",
                                                arguments.dry_run ? " (dry run)" : ""));
  return kExitDone;
}

}  // namespace shanty
