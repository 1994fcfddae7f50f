#pragma once

#include "agent/agent_spec.h"

namespace shanty {

// Runs the agent of one node until the job is over for it: connects to the coordinator, starts and
// watches the workers, and leaves no process behind. Blocks; single-threaded but for the log pump.
// Returns the exit code: 0 the job succeeded, 1 it failed or was stopped, 3 the agent could not
// start (the reason is on stderr).
int run_agent(const AgentSpec& spec);

}  // namespace shanty
