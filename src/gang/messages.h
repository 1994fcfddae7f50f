#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace shanty::gang {

// The two messages between an agent and the coordinator. Both are level-triggered: each says the
// sender's whole state or wish and replaces the one before, so loss, duplication and reordering
// cost time and nothing else. Strings are UTF-8 and bounded by kMaxTextBytes on the wire.

inline constexpr size_t kMaxTextBytes = 4096;
inline constexpr size_t kMaxHistory = 64;
inline constexpr uint64_t kNoStep = ~uint64_t{0};
inline constexpr int kDefaultStopSignal = SIGTERM;

// Generations are counted from 1; 0 means none.
using Generation = uint64_t;

// How one worker of a generation ended.
struct WorkerExit {
  int local_rank = 0;
  int rank = 0;
  int exit_code = 0;           // meaningful when signal == 0
  int signal = 0;              // the signal that ended it, 0 = it exited
  bool requested = false;      // the agent had asked it to stop before it ended
  bool out_of_memory = false;  // the kernel's OOM killer took it
  uint64_t step = kNoStep;     // last step it completed
  std::string phase;           // what it was doing, "" = unknown
  int64_t exited_unix_ns = 0;
  int64_t error_unix_ns = 0;  // when its first error was raised, 0 = unknown
  std::string error;          // "ValueError: ..." from its error file, "" = none

  bool failed() const { return signal != 0 || exit_code != 0; }
};

// One failure that ended a generation, as told to users and remembered for the restart budget.
struct Failure {
  int64_t unix_ns = 0;
  Generation generation = 0;
  int rank = -1;  // -1 = a whole node
  int node_rank = -1;
  std::string node;
  std::string reason;  // "killed by SIGKILL", "exited with code 3", "node lost: no word for 3 s"
  std::string first_error;  // the worker's own words, "" = none
  uint64_t step = kNoStep;
  // Equal for the same failure at the same step; "" for failures that never count as the
  // program's fault (a stranger's SIGKILL, a lost node).
  std::string signature;

  friend bool operator==(const Failure&, const Failure&) = default;
};

// What one agent needs to start its workers of a generation.
struct World {
  Generation generation = 0;
  int node_rank = 0;
  int node_count = 0;
  int first_rank = 0;  // rank of local rank 0
  int local_size = 0;
  int world_size = 0;
  std::string master_addr;
  uint16_t master_port = 0;
  int restart_count = 0;
  std::vector<Failure> history;  // newest last, at most kMaxHistory

  friend bool operator==(const World&, const World&) = default;
};

enum class AgentPhase {
  kIdle,      // no worker alive
  kRunning,   // workers of `world.generation` alive
  kStopping,  // told to stop them; some are alive
  kDone,      // all workers of `world.generation` ended with 0
};

// Agent -> coordinator: everything the agent knows that matters to the gang.
struct Report {
  uint64_t incarnation = 0;   // random per agent process, never 0
  uint64_t seq = 0;           // counts up within an incarnation
  uint64_t epoch = 0;         // highest coordinator epoch heard, 0 = none
  std::string node;           // host name, for people
  int wanted_node_rank = -1;  // -1 = any
  int slots = 0;              // workers it runs
  std::string address;        // where other nodes reach this node; "" = as seen by the coordinator
  uint16_t free_port = 0;     // a port it holds for the next generation's MASTER_PORT
  AgentPhase phase = AgentPhase::kIdle;
  World world;                    // the last generation it started; generation 0 = none yet
  std::vector<WorkerExit> exits;  // workers of world.generation that ended, in order of their end
  bool leaving = false;           // it will exit and not come back by itself
  std::string leave_reason;
};

enum class Wish {
  kWait,  // nothing to do yet; `reason` says what is waited for
  kRun,   // run `world` (if not running it or done with it already)
  kStop,  // stop any generation up to `world.generation`; `outcome` kStopped = the job is stopped
          // (workers get the full grace), kNone = another generation may follow
  kEnd,   // stop everything and exit; `outcome` says how the job ended
};

enum class Outcome { kNone, kSucceeded, kFailed, kStopped };

// Coordinator -> agent: what it wants this agent to do.
struct Directive {
  uint64_t epoch = 0;  // coordinator's; a directive of a lower epoch than heard before is void
  uint64_t seq = 0;    // counts up within an epoch, over all agents
  uint64_t to_incarnation = 0;
  Wish wish = Wish::kWait;
  World world;
  std::string reason;
  Outcome outcome = Outcome::kNone;
  int stop_signal = kDefaultStopSignal;  // what the workers get first, with kStop and kStopped
};

const char* to_string(AgentPhase phase);
const char* to_string(Wish wish);
const char* to_string(Outcome outcome);

}  // namespace shanty::gang
