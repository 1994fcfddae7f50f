#include "check/limits.h"

#include <algorithm>
#include <optional>

#include "check/probes/areas.h"

namespace shanty::check {
namespace {

bool is_limited(const Snapshot& snapshot, const Workload& workload, const Fit& fit) {
  const ProbeInput input{snapshot, workload, fit};
  std::vector<Finding> findings;
  probe_quota(input, findings);
  probe_gang(input, findings);
  return std::ranges::any_of(findings, says_limit);
}

std::optional<Change> other_queue(const Snapshot& snapshot, Workload workload, const Fit& fit) {
  if (!fit.fits || workload.kueue_queue.empty()) return std::nullopt;
  for (const LocalQueueFacts& queue : snapshot.local_queues) {
    workload.kueue_queue = queue.name;
    if (!is_limited(snapshot, workload, fit)) {
      return Change{.kind = ChangeKind::kOtherQueue, .cost = 1, .label = queue.name};
    }
  }
  return std::nullopt;
}

// The most pods of the first group that quotas and queues let through.
uint64_t pods_within_limits(const Snapshot& snapshot, Workload workload, const Fit& fit) {
  FitGroup& group = workload.request.groups.front();
  uint64_t low = 0;
  uint64_t high = group.pods - 1;
  while (low < high) {
    group.pods = low + (high - low + 1) / 2;
    const uint64_t tried = group.pods;
    is_limited(snapshot, workload, fit) ? high = tried - 1 : low = tried;
  }
  return low;
}

}  // namespace

bool says_limit(const Finding& finding) {
  return finding.code == "SCHED056" || (finding.code >= "GANG051" && finding.code <= "GANG055");
}

void consider_limits(const Snapshot& snapshot, const Workload& workload, Fit& fit) {
  if (workload.request.groups.empty() || !is_limited(snapshot, workload, fit)) return;
  std::vector<Change> changes;
  if (auto queue = other_queue(snapshot, workload, fit)) changes.push_back(std::move(*queue));
  uint64_t pods = pods_within_limits(snapshot, workload, fit);
  const auto fewer = std::ranges::find(fit.changes, ChangeKind::kFewerPods, &Change::kind);
  if (!fit.fits) pods = fewer == fit.changes.end() ? 0 : std::min(pods, fewer->pods);
  if (pods > 0) changes.push_back({.kind = ChangeKind::kFewerPods, .cost = 4, .pods = pods});
  fit.changes = std::move(changes);
}

}  // namespace shanty::check
