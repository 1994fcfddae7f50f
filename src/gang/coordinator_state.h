#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gang/coordinator.h"
#include "gang/verdict.h"

namespace shanty::gang {

enum class JobPhase {
  kRecovering,  // listening to what agents say about a job that ran before this life
  kForming,     // waiting for a full set of idle agents
  kRunning,     // a generation was started or adopted
  kStopping,    // its workers are being stopped
  kEnding,      // decided; agents are told and say goodbye
  kFinished,
};

// One agent process that was heard in this life.
struct Member {
  Report report;  // its latest word
  TimePoint last_heard;
  int64_t last_heard_unix_ns = 0;
  uint64_t join_order = 0;
  int slot = -1;  // the node rank it holds for the next generation
  int seat = -1;  // its node rank in the current generation
  bool connected = true;
  bool lost = false;       // its lease ran out; it may come back
  bool gone = false;       // it said goodbye; never comes back
  bool addressed = false;  // this life sent it a directive
  bool told_end = false;   // ... that said kEnd
  std::string refusal;     // why it can never take part, "" = it can

  bool present() const { return !lost && !gone; }
  bool has_workers() const {
    return report.phase == AgentPhase::kRunning || report.phase == AgentPhase::kStopping;
  }
};

// One node's place in the current generation.
struct Seat {
  uint64_t incarnation = 0;  // 0 = never heard in this life
  std::string node;
  int first_rank = 0;
  int local_size = 0;
  size_t exits_seen = 0;
  bool finished = false;  // all its ranks ended with 0
  bool lost = false;
};

// Everything a coordinator knows. Made from its configuration alone:
// CoordinatorState{.config = ...}; only step_coordinator changes it afterwards.
struct CoordinatorState {
  CoordinatorConfig config;

  bool started = false;
  JobPhase phase = JobPhase::kForming;
  TimePoint phase_since;
  TimePoint listen_until;  // the end of kRecovering
  TimePoint last_step;
  TimePoint awake_since;  // the last time this process overslept a deadline
  TimePoint next_waiting_note;
  std::optional<TimePoint> next_lease_check;

  uint64_t epoch = 1;
  uint64_t seq = 0;

  std::map<uint64_t, Member> members;  // by incarnation
  uint64_t joins = 0;
  std::set<uint64_t> waiting;   // members without a node rank, and some that no longer count
  std::vector<uint64_t> slots;  // holder per node rank, 0 = free
  size_t slot_cursor = 0;       // where the last search over slots stopped
  uint64_t member_cursor = 0;

  Generation max_generation = 0;  // the highest seen anywhere
  std::vector<Failure> history;   // by generation, one each
  World world;                    // the current generation; per-node fields are those of a seat
  std::vector<Seat> seats;        // empty = this life neither formed nor adopted one
  std::vector<Candidate> candidates;
  bool all_started = false;  // no node is held up by an older generation
  bool interrupted = false;  // the generation must be replaced though no one failed
  int restarts = 0;          // restart count of the next generation
  bool acted = false;        // this life decided something; it no longer re-enters recovery

  std::optional<std::string> stop_reason;
  int stop_signal = kDefaultStopSignal;
  Outcome outcome = Outcome::kNone;
  std::string end_reason;
};

}  // namespace shanty::gang
