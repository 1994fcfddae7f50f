#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/snapshot.h"

namespace shanty::check {

// What Kueue lets a ClusterQueue have of one resource in one flavor: its own quota, and what its
// cohort and the cohorts above it lend, within all limits on the way.
struct QuotaShare {
  int64_t most = 0;  // were nothing in use
  int64_t free = 0;  // now; never negative
};
QuotaShare share_of(const ClusterQueueFacts& queue, const FlavorQuota& quota,
                    const Snapshot& snapshot);

// The cohorts above `cohort` that are each other's parents, in order; empty when there are none.
// Kueue admits nothing to such a tree.
std::vector<std::string> cohort_cycle(const std::string& cohort, const Snapshot& snapshot);

}  // namespace shanty::check
