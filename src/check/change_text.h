#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/fit.h"
#include "check/snapshot.h"

namespace shanty::check {

// Sentences about a Fit.

// "8 nvidia.com/gpu, 32 cpu, 256 GiB memory".
std::string pod_text(const Workload& workload);
// "nodes: 3 open, 2 busy (nvidia.com/gpu), 1 cordoned".
std::string node_counts_text(const Fit& fit);
// What to do, and what it gives.
std::string change_text(const Change& change, const Workload& workload, int64_t now_unix_s);
// One line for each of the largest holders, the largest first.
std::vector<std::string> holder_lines(const Fit& fit, const Workload& workload, int64_t now_unix_s);
// Whose pods the scheduler would preempt, a line each.
std::vector<std::string> preempted_lines(const Fit& fit, const Workload& workload,
                                         int64_t now_unix_s);
// When it would fit, given what runs, or that this cannot be known.
std::string when_text(const Fit& fit, int64_t now_unix_s);

}  // namespace shanty::check
