#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "gang/coordinator.h"
#include "gang/messages.h"

namespace shanty::gang {

// The agent of one node as a pure function: step_agent(state, event, now) -> actions.

struct AgentConfig {
  uint64_t incarnation = 0;
  std::string node;
  int wanted_node_rank = -1;
  int slots = 1;
  std::string address;
  Duration report_every = std::chrono::seconds(1);
  Duration grace = std::chrono::seconds(15);  // SIGTERM -> SIGKILL when the job is being stopped
  // SIGTERM -> SIGKILL when a generation is being replaced after a failure.
  Duration restart_grace = std::chrono::seconds(5);
  // Without a word from the coordinator for this long, stop the workers and leave.
  Duration orphan_limit = std::chrono::seconds(60);
  // The same before the first word (a coordinator that starts late).
  Duration first_contact_limit = std::chrono::minutes(30);
};

struct DirectiveReceived {
  Directive directive;
};
// Workers that were found ended at one look; in which order they ended nobody knows. `rank` and
// `requested` of their exits are filled in by the state machine.
struct WorkersEnded {
  Generation generation = 0;
  std::vector<WorkerExit> exits;
};
// No process of that generation is left on the node, descendants included.
struct WorkersGone {
  Generation generation = 0;
};
// The workers of a generation could not be started. SignalWorkers{kill} answers it, and the shell
// says WorkersGone when nothing of that generation is left, as after any other end.
struct StartFailed {
  Generation generation = 0;
  std::string reason;
};
// The shell got a signal to stop or its parent died.
struct LeaveRequested {
  std::string reason;
  int signal = kDefaultStopSignal;  // for the workers
};
// The shell reserved another port for MASTER_PORT.
struct PortReserved {
  uint16_t port = 0;
};
using AgentEvent = std::variant<DirectiveReceived, WorkersEnded, WorkersGone, StartFailed,
                                LeaveRequested, PortReserved, Tick>;

struct StartWorkers {
  World world;
};
struct SignalWorkers {
  bool kill = false;                // SIGKILL to everything that is left
  int signal = kDefaultStopSignal;  // else this, to the workers
};
struct SendReport {
  Report report;
};
// Leave: the job is over for this agent. No worker is alive when this is given.
struct ExitAgent {
  Outcome outcome = Outcome::kNone;
  std::string reason;
};
using AgentAction = std::variant<StartWorkers, SignalWorkers, SendReport, ExitAgent, Note>;

struct AgentState;  // value type, agent_state.h

std::vector<AgentAction> step_agent(AgentState& state, const AgentEvent& event, Now now);

std::optional<TimePoint> next_deadline(const AgentState& state);

}  // namespace shanty::gang
