#include "cli/init_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "cli/script_guess.h"
#include "job/keys.h"
#include "job/validate.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr size_t kCommentColumn = 46;
constexpr uint64_t kMaxCpuRanks = 2;

bool is_plain(std::string_view text) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-';
  };
  // A path with a slash or an ending cannot be taken for a number, a flag or null.
  const bool has_letter = text.find_first_of("/_") != text.npos || text.ends_with(".py");
  return has_letter && text.front() != '-' && std::all_of(text.begin(), text.end(), is_safe);
}

std::string yaml_text(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string out = "'";
  for (char c : text) {
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

std::string line(const std::string& content, const std::string& comment) {
  return fmt::format("{:<{}}  # {}\n", content, kCommentColumn, printable(comment));
}

std::string job_name(const std::string& script_path) {
  std::string stem = script_path.substr(script_path.rfind('/') + 1);
  if (stem.size() > 3 && stem.ends_with(".py")) stem.resize(stem.size() - 3);
  const bool is_null = stem == "null" || stem == "Null" || stem == "NULL";
  return is_job_name(stem) && !is_null ? stem : "job";
}

std::string rank_lines(const Cluster& cluster) {
  const std::string nodes = line("nodes: 1", "how many machines");
  if (cluster.gpus > 0) {
    return nodes + line(fmt::format("gpus_per_node: {}", cluster.gpus), "the GPUs of this machine");
  }
  const uint64_t ranks = std::clamp<uint64_t>(cluster.cpus.value_or(1), 1, kMaxCpuRanks);
  return nodes + line(fmt::format("gpus_per_node: {}", ranks),
                      "processes per machine; no GPU was found here, so they run on CPU");
}

std::string batch_line(const ScriptGuesses& guesses) {
  constexpr double kMaxBatch = 1e6;
  const auto batch = parse_number(guesses.batch_size ? guesses.batch_size->value : "");
  if (!batch.ok() || *batch < 1 || *batch > kMaxBatch) {
    return line("batch: {per_gpu: 32}", "not found in the script: put the batch size of one rank");
  }
  return line(fmt::format("batch: {{per_gpu: {}}}", guesses.batch_size->value),
              guesses.batch_size->from);
}

// More that was seen, left for the user to switch on.
std::string further_lines(const ScriptGuesses& guesses) {
  std::string out;
  if (guesses.steps) out += line("# steps: " + guesses.steps->value, guesses.steps->from);
  if (guesses.loader_workers) {
    out += line(fmt::format("# loader: {{workers: {}}}", guesses.loader_workers->value),
                guesses.loader_workers->from);
  }
  if (guesses.learning_rate) {
    out += line("# in batch: base_lr: " + guesses.learning_rate->value,
                guesses.learning_rate->from + "; with base_batch, the batch it is right for");
  }
  return out.empty() ? out : "\n# Also seen in the script:\n" + out;
}

}  // namespace

std::string initial_job_file(const InitInputs& in) {
  const ScriptGuesses guesses = guess_from_script(in.script_text);
  std::string out = "# Written by shanty init from a look at the script; nothing was run.\n";
  out += "# shanty schema --markdown lists every key, shanty plan shows what follows from this.\n";
  out += line("job: " + job_name(in.script_path), "the script's name");
  out += line(fmt::format("run: {{script: {}, framework: {}}}", yaml_text(in.script_path),
                          choice_name(guesses.framework.value)),
              guesses.framework.from);
  out += rank_lines(in.cluster);
  out += batch_line(guesses);
  return out + further_lines(guesses);
}

}  // namespace shanty
