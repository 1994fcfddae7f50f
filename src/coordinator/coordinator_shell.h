#pragma once

#include "coordinator/coordinator_spec.h"

namespace shanty {

// The address that this coordinator should listen on has a listener already.
inline constexpr int kExitAddressInUse = 75;

// Runs the coordinator of one job to the job's end, writing its part of the run directory and, at
// the end, the report. Blocks; single-threaded. Returns 0 when the job succeeded, 1 when it failed
// or was stopped, 3 when the coordinator could not start (the reason is on stderr),
// kExitAddressInUse as said above.
int run_coordinator(const CoordinatorSpec& spec);

}  // namespace shanty
