#include "coordinator/live_state_name.h"

namespace shanty {

const char* live_state_name(const gang::CoordinatorState& state) {
  switch (state.phase) {
    case gang::JobPhase::kRecovering:
      return "recovering";
    case gang::JobPhase::kForming:
      return state.max_generation == 0 ? "waiting" : "restarting";
    case gang::JobPhase::kRunning:
      return "running";
    case gang::JobPhase::kStopping:
      return state.stop_reason ? "stopping" : "restarting";
    case gang::JobPhase::kEnding:
    case gang::JobPhase::kFinished:
      return gang::to_string(state.outcome);
  }
  return "unknown";
}

}  // namespace shanty
