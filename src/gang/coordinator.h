#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "gang/messages.h"

namespace shanty::gang {

// The coordinator of one job as a pure function: step_coordinator(state, event, now) -> actions.
// No clock, socket or process is touched here; the shell delivers events and performs actions.

struct Now {
  TimePoint mono;
  int64_t unix_ns = 0;
};

struct CoordinatorConfig {
  int node_count = 1;
  int max_restarts = 10;
  Duration restart_window = std::chrono::hours(1);  // zero = the whole job
  // Restart after a worker that ended by itself with a failure. When false only process faults
  // (signals, lost nodes) are restarted.
  bool restart_on_exit = true;
  Duration lease = std::chrono::seconds(3);
  // How long a forming world waits for agents that never came or left, before the job fails.
  Duration join_limit = std::chrono::minutes(30);
  // How long agents may take to report that their workers are gone, after the grace they give.
  Duration stop_limit = std::chrono::seconds(60);
  // The longest grace any agent gives its workers; an agent may take this and stop_limit.
  Duration agent_grace = std::chrono::seconds(15);
  Duration end_limit = std::chrono::seconds(5);  // for agents to say goodbye at the end
  std::string master_addr;                       // "" = address of the node with rank 0
  uint16_t master_port = 0;                      // 0 = the free port that node offers
  uint64_t first_epoch = 1;
  // Failures that an earlier life of this coordinator already recorded.
  std::vector<Failure> known_failures;
  // The highest generation an earlier life formed or found (its kWorldFormed and kRecovered
  // notes), 0 = none or unknown.
  Generation known_generation = 0;
  // How an earlier life ended the job (its kEnded note); this life then only tells the agents.
  // The shell records a kEnded note before it sends the directives that follow it.
  Outcome known_outcome = Outcome::kNone;
  std::string known_reason;
  // True when an earlier life existed: nothing is decided until all agents that can speak have.
  bool recovering = false;
};

struct ReportReceived {
  Report report;
};
// The agent's connection closed; it may come back within its lease.
struct AgentDisconnected {
  uint64_t incarnation = 0;
};
struct StopRequested {
  std::string reason;
  int signal = kDefaultStopSignal;  // for the workers
};
struct Tick {};
using CoordinatorEvent = std::variant<ReportReceived, AgentDisconnected, StopRequested, Tick>;

struct SendDirective {
  Directive directive;
};
// Something happened that people and the run directory should know.
struct Note {
  enum class Kind {
    kAgentJoined,
    kAgentLost,
    kAgentLeft,
    kAgentRefused,
    kWaiting,
    kWorldFormed,
    kWorkerFailed,
    kGenerationEnded,
    kRestarting,
    kStopping,
    kRecovered,
    kEnded,
  };
  Kind kind = Kind::kWaiting;
  Generation generation = 0;
  int node_rank = -1;
  std::string node;
  std::string text;                  // one sentence
  std::optional<Failure> failure;    // kGenerationEnded, kRestarting and a failed kEnded
  std::optional<World> world;        // kWorldFormed, as seen by node rank 0
  Outcome outcome = Outcome::kNone;  // kEnded
};
// The job is over and the agents are gone (or gave no sign within end_limit).
struct Finish {
  Outcome outcome = Outcome::kNone;
  std::string reason;
};
using CoordinatorAction = std::variant<SendDirective, Note, Finish>;

struct CoordinatorState;  // value type, coordinator_state.h

std::vector<CoordinatorAction> step_coordinator(CoordinatorState& state,
                                                const CoordinatorEvent& event, Now now);

// When the state machine wants the next Tick at the latest (a lease or limit runs out).
std::optional<TimePoint> next_deadline(const CoordinatorState& state);

const char* to_string(Note::Kind kind);

}  // namespace shanty::gang
