#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gang/agent.h"

namespace shanty::gang {

// Why and how an agent leaves once its workers are gone.
struct Departure {
  Outcome outcome = Outcome::kNone;
  std::string reason;
};

// Everything an agent knows. Made from its configuration alone: AgentState{.config = ...}; only
// step_agent changes it afterwards.
struct AgentState {
  AgentConfig config;

  bool started = false;
  TimePoint started_at;
  TimePoint awake_since;  // the last time this process overslept a deadline; limits count from it

  // What was heard from the coordinator.
  uint64_t epoch = 0;
  uint64_t directive_seq = 0;
  std::optional<TimePoint> last_heard;

  // The workers.
  AgentPhase phase = AgentPhase::kIdle;
  World world;
  std::vector<WorkerExit> exits;
  std::optional<TimePoint> kill_at;  // when everything that is left gets SIGKILL
  bool killed = false;               // it got it

  std::optional<Departure> departure;
  bool exited = false;

  uint16_t free_port = 0;
  uint64_t report_seq = 0;
  TimePoint last_report_at;

  bool has_workers() const {
    return phase == AgentPhase::kRunning || phase == AgentPhase::kStopping;
  }
};

}  // namespace shanty::gang
