#pragma once

#include "causes/finding.h"
#include "check/fit.h"
#include "check/snapshot.h"

namespace shanty::check {

// True for what keeps a job waiting although nodes have room: quotas and queues.
bool says_limit(const Finding& finding);

// Where quotas or queues stand in the way, more room on nodes alone does not help: leaves only
// changes that make the job pass both, and adds another queue that would.
void consider_limits(const Snapshot& snapshot, const Workload& workload, Fit& fit);

}  // namespace shanty::check
