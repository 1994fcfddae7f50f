#include "doctor/launcher_saw.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>

namespace shanty {
namespace {

constexpr int64_t kTerminated = -15;  // by the launcher itself

// Classes of what happens inside a process.
constexpr std::string_view kOfAProcess[] = {
    "app_cuda_fault",   "checkpoint",      "driver_image", "gpu_assignment",
    "gpu_hw_fabricmgr", "gpu_oom",         "host_limits",  "host_oom",
    "numerics",         "rank_died_early", "shm"};

// The first record of this event below a line of its file.
const Record* below(const Case& of, const Record& line, std::string_view event) {
  for (const Record* record : of.all(event)) {
    if (record->file == line.file && record->line > line.line) return record;
  }
  return nullptr;
}

int64_t code_below(const Case& of, const Record& line) {
  const Record* code = below(of, line, "summary_code");
  return code ? code->number("code", 0) : 0;
}

// torchrun's summary lists the others before the root cause.
std::optional<FailedWorker> root_of_summary(const Case& of, const Record& root) {
  const Record* rank = below(of, root, "summary_rank");
  if (!rank) return std::nullopt;
  const int64_t code = code_below(of, *rank);
  for (const Record* other : of.all("summary_rank")) {
    const bool listed = other->file == root.file && other->line < root.line;
    if (listed && code_below(of, *other) == code) return std::nullopt;
  }
  const Record* host = below(of, root, "summary_host");
  return FailedWorker{.rank = static_cast<int>(rank->number("a")),
                      .node = host ? std::string(host->get("value")) : ""};
}

bool is_about_a_process(const Hypothesis& hypothesis) {
  const Finding& finding = hypothesis.finding;
  const bool of_one = std::find(std::begin(kOfAProcess), std::end(kOfAProcess),
                                finding.failure_class) != std::end(kOfAProcess);
  return of_one && hypothesis.nearness < Nearness::kPeers && finding.severity == Severity::kError &&
         finding.code != "RUN101";
}

}  // namespace

std::optional<FailedWorker> failed_alone(const Case& of) {
  const Records roots = of.all("summary_root");
  if (roots.size() == 1) return root_of_summary(of, *roots.front());
  if (!roots.empty()) return std::nullopt;
  std::set<int> ranks;
  std::string node;
  for (const Record* record : of.all("worker_failed")) {
    const int64_t code = record->number("code", 0);
    if (code == kTerminated || code == 0) continue;
    ranks.insert(of.rank_of_worker(*record));
    node = record->node;
  }
  if (ranks.empty()) {
    for (const Record* record : of.all("spawn_exit")) {
      ranks.insert(static_cast<int>(record->number("local")));
    }
  }
  if (ranks.size() != 1 || *ranks.begin() < 0) return std::nullopt;
  return FailedWorker{.rank = *ranks.begin(), .node = node};
}

void name_whom_launcher_saw(const Case& of, Hypotheses& hypotheses) {
  const auto worker = failed_alone(of);
  if (!worker) return;
  for (Hypothesis& hypothesis : hypotheses) {
    Subject& whom = hypothesis.finding.subject;
    if (!is_about_a_process(hypothesis) || !whom.ranks.empty() || !whom.pods.empty()) continue;
    whom.ranks.push_back(worker->rank);
    if (whom.nodes.empty() && !worker->node.empty()) whom.nodes.push_back(worker->node);
  }
}

}  // namespace shanty
