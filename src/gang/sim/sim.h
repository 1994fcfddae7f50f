#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gang/agent.h"
#include "gang/coordinator.h"

namespace shanty::gang::sim {

// A whole job - agents, workers, network, coordinator - run on simulated time by the real state
// machines. One seed is one schedule: the same SimConfig always gives the same run.

enum class FaultKind {
  kWorkerFails,      // one worker of a host ends by itself
  kStartFails,       // the host's next workers cannot be started
  kHostDies,         // agent and workers at once
  kAgentPauses,      // the agent process is stopped for a while; its workers go on
  kAgentLeaves,      // SIGTERM to the agent
  kHostSticks,       // the host's processes can never be got rid of
  kHostIsCut,        // no message passes to or from a group of hosts
  kConnectionDrops,  // the coordinator sees a close; the agent is well
  kCoordinatorDies,  // comes back after a while, or never
  kCoordinatorPauses,
  kStopRequested,
};

struct Fault {
  int64_t at_ns = 0;
  FaultKind kind = FaultKind::kWorkerFails;
  int host = 0;
  int64_t lasts_ns = 0;  // pause, cut, time until a successor comes; -1 = none ever comes
  uint64_t variant = 0;  // what exactly, by kind
};

// A fault of the program: one rank raises the same error at the same step in every generation.
struct ProgramFault {
  int rank = 0;
  int64_t after_ns = 0;
  uint64_t step = 0;
};

struct SimHost {
  int slots = 1;
  int wanted_node_rank = -1;
  int64_t starts_at_ns = 0;
};

struct SimConfig {
  uint64_t seed = 1;
  std::vector<SimHost> hosts;  // expected ones and spares
  CoordinatorConfig coordinator;
  AgentConfig agent;                    // the limits; identity comes from `hosts`
  int64_t work_spread_ns = 50'000'000;  // how much longer some nodes work than others
  int64_t work_ns = 0;                  // what a healthy generation takes
  std::vector<Fault> faults;
  std::optional<ProgramFault> program_fault;
  int64_t chaos_until_ns = 0;  // no fault starts and no message is lost after this
  double loss = 0;
  double duplication = 0;
  double long_delay_chance = 0;  // of a message that overtakes nothing for up to two seconds
  double clock_skew = 0;         // clocks run at 1 +- this
  bool trace = false;
};

struct SimResult {
  std::string violation;  // "" = every invariant held
  std::vector<std::string> trace;
  Outcome outcome = Outcome::kNone;  // as the coordinator told it; kNone = it never did
  uint64_t events = 0;
  uint64_t reports = 0;     // sent by agents
  uint64_t directives = 0;  // sent by coordinators
  int generations = 0;
  int64_t all_started_ns = 0;         // when the last node of the first generation started
  int64_t last_hello_ns = 0;          // when the last expected agent's first report was sent
  uint64_t reports_before_start = 0;  // most reports any agent sent before it started workers
};

// The schedule of a seed: mostly one to eight agents, now and then 64.
SimConfig random_config(uint64_t seed);
SimResult simulate(const SimConfig& config);
// "seed 7: ..." with the end of its trace, from a second run of the same schedule.
std::string explain_violation(const SimConfig& config);

}  // namespace shanty::gang::sim
