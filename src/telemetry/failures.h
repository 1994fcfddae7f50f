#pragma once

#include <vector>

#include "run/events.h"
#include "telemetry/report.h"

namespace shanty {

// The failures that ended generations, one for each, in their order: what the coordinator told; of
// a generation it told nothing of, the first worker that an agent saw failing.
std::vector<ReportFailure> find_failures(const std::vector<Event>& events);

}  // namespace shanty
