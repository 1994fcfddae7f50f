#include "gang/messages.h"

namespace shanty::gang {

const char* to_string(AgentPhase phase) {
  switch (phase) {
    case AgentPhase::kIdle:
      return "idle";
    case AgentPhase::kRunning:
      return "running";
    case AgentPhase::kStopping:
      return "stopping";
    case AgentPhase::kDone:
      return "done";
  }
  return "?";
}

const char* to_string(Wish wish) {
  switch (wish) {
    case Wish::kWait:
      return "wait";
    case Wish::kRun:
      return "run";
    case Wish::kStop:
      return "stop";
    case Wish::kEnd:
      return "end";
  }
  return "?";
}

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNone:
      return "none";
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kStopped:
      return "stopped";
  }
  return "?";
}

}  // namespace shanty::gang
