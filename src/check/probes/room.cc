#include <fmt/format.h>

#include "check/change_text.h"
#include "check/probes/areas.h"

namespace shanty::check {
namespace {

size_t count_of(const Fit& fit, NodeState state) {
  size_t count = 0;
  for (const NodeVerdict& verdict : fit.nodes) count += verdict.state == state ? 1 : 0;
  return count;
}

// Who holds the most of what is scarce, as evidence.
void add_holders(const ProbeInput& in, Finding& finding) {
  for (const std::string& line : holder_lines(in.fit, in.workload, in.snapshot.now_unix_s)) {
    finding.evidence.push_back({.text = line});
  }
}

}  // namespace

// SCHED050: it has to wait. SCHED051: it can never fit. SCHED055: only not in one place. SCHED063:
// the scheduler would make room by preemption.
void probe_room(const ProbeInput& in, std::vector<Finding>& findings) {
  const Fit& fit = in.fit;
  if (fit.fits) return;
  const bool never =
      count_of(fit, NodeState::kTooSmall) + count_of(fit, NodeState::kOther) == fit.nodes.size();
  const bool apart = !fit.changes.empty() && fit.changes.front().kind == ChangeKind::kNoTopology;
  const std::string have =
      fmt::format("{} of {} find a place now", fit.placed, counted(fit.wanted, "pod"));
  Finding finding;
  if (never) {
    finding = make_finding("SCHED051", Severity::kError,
                           "no node that the job may use is large enough for one of its pods (" +
                               pod_text(in.workload) + ")");
  } else if (apart) {
    finding = make_finding(
        "SCHED055", Severity::kWarning,
        fmt::format("no single {} has room for all: {}", in.workload.request.topology_label, have));
  } else {
    finding = make_finding("SCHED050", Severity::kWarning, "the job has to wait: " + have);
  }
  finding.evidence.push_back({.text = node_counts_text(fit)});
  add_holders(in, finding);
  for (size_t i = 0; i < fit.changes.size(); ++i) {
    finding.fix.push_back((i == 0 ? "smallest change: " : "or: ") +
                          change_text(fit.changes[i], in.workload, in.snapshot.now_unix_s));
  }
  if (!in.snapshot.sees_all_pods) {
    finding.confidence = 0.5;
    finding.ruled_out.push_back(
        "what other namespaces hold could not be seen: there may be less room than this");
  }
  findings.push_back(std::move(finding));
  if (fit.preempted.empty()) return;
  Finding preemption = make_finding(
      "SCHED063", Severity::kWarning,
      fmt::format(
          "with its priority {} the job would preempt pods of {}: the scheduler ends them to "
          "make room",
          in.workload.request.priority, counted(fit.preempted.size(), "owner")));
  for (std::string& line : preempted_lines(fit, in.workload, in.snapshot.now_unix_s)) {
    preemption.evidence.push_back({.text = std::move(line)});
  }
  findings.push_back(std::move(preemption));
}

}  // namespace shanty::check
