#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/random.h"
#include "gang/agent_state.h"
#include "gang/coordinator_state.h"
#include "gang/sim/sim.h"
#include "gang/sim/truth.h"

namespace shanty::gang::sim {

// A machine's clocks as seen from simulated time.
struct SkewedClock {
  double rate = 1;
  int64_t mono_offset_ns = 0;
  int64_t unix_offset_ns = 0;

  Now at(int64_t sim_ns) const;
  int64_t to_sim(TimePoint local) const;  // the first simulated time at which it is `local`
};

enum class What {
  kHostStarts,
  kAgentTimer,
  kCoordinatorTimer,
  kReport,
  kDirective,
  kDisconnect,
  kWorkerEnds,
  kExitSeen,
  kAllGone,
  kStartFails,
  kPort,
  kFault,
  kHostResumes,
  kCoordinatorReborn,
  kZombie,
  kAudit,
};

struct Event {
  int64_t at_ns = 0;
  uint64_t order = 0;  // ties are broken by age
  What what = What::kAudit;
  int host = -1;
  uint64_t life = 0;  // of the agent or coordinator it is meant for
  Generation generation = 0;
  size_t payload = 0;  // report, directive or exit in its pool; else by kind
};

// Payloads of events, so that the queue moves small things.
template <typename T>
class Pool {
 public:
  size_t put(T value) {
    if (free_.empty()) {
      items_.push_back(std::move(value));
      return items_.size() - 1;
    }
    const size_t i = free_.back();
    free_.pop_back();
    items_[i] = std::move(value);
    return i;
  }
  T take(size_t i) {
    free_.push_back(i);
    return std::move(items_[i]);
  }

 private:
  std::deque<T> items_;
  std::vector<size_t> free_;
};

// An incarnation says which host and which of its agent processes it is.
constexpr uint64_t incarnation_of(size_t host, uint64_t life) { return (life << 24) | (host + 1); }
constexpr size_t host_of_incarnation(uint64_t incarnation) { return (incarnation & 0xFFFFFF) - 1; }
constexpr uint64_t life_of_incarnation(uint64_t incarnation) { return incarnation >> 24; }

struct Host {
  SimHost spec;
  std::string name;
  bool up = false;    // an agent process exists and has not left
  uint64_t life = 0;  // counts agent processes
  AgentState agent;
  SkewedClock clock;
  int64_t timer_at_ns = -1;
  int64_t paused_until_ns = 0;
  int64_t cut_until_ns = 0;
  bool sticks = false;
  bool start_will_fail = false;
  bool left = false;  // was told to leave

  // Processes.
  Generation running = 0;  // the generation of which a process is left, 0 = none
  int world = -1;          // its index in Truth
  std::vector<bool> alive;
  bool signalled = false;
  bool strays = false;  // descendants that only SIGKILL ends

  // What the coordinator could know.
  int64_t last_delivered_ns = -1;
  uint64_t last_delivered_seq = 0;
  uint64_t seen_by_life = 0;  // coordinator life, and the newest report delivered to it
  uint64_t seen_seq = 0;
  int64_t last_told_ns = -1;
  Generation told_to_stop = 0;  // by the epoch it has heard last
  uint64_t reports_sent = 0;
};

// The coordinator process, and what outlives it on disk.
struct Brain {
  bool up = false;
  bool finished = false;
  uint64_t life = 0;
  CoordinatorState state;
  SkewedClock clock;
  int64_t timer_at_ns = -1;
  int64_t paused_until_ns = 0;
  int64_t awake_since_ns = 0;
  int crash_after_actions = -1;  // dies in the middle of its next step
  int64_t crash_lasts_ns = 0;
  uint64_t crash_variant = 0;
  Generation heard = 0;  // the highest generation this life was told of
  bool formed = false;   // this life formed a world
  bool told_to_stop = false;
  bool forgot = false;  // it lost its disk and has not learnt the past from an agent
  std::vector<Failure> disk_failures;
  Generation disk_generation = 0;
  Outcome disk_outcome = Outcome::kNone;
  std::string disk_reason;
};

class Simulation {
 public:
  explicit Simulation(const SimConfig& config);
  SimResult run();

 private:
  // simulation.cc: the queue, the hosts' and the coordinator's shells.
  void push(Event event);
  void handle(const Event& event);
  void step_host(int host, const AgentEvent& event);
  void perform(int host, AgentAction& action);
  void arm_host(int host);
  void step_coordinator_now(const CoordinatorEvent& event);
  void perform(CoordinatorAction& action);
  void arm_coordinator();
  void audit();
  bool is_over() const;
  Host* host_for(const Event& event);

  // network.cc: who can hear whom, and when.
  int64_t draw_delay();
  bool is_cut(int host) const;
  bool drops();
  void send_report(int host, Report report);
  void send_directive(Directive directive);
  void deliver_report(const Event& event);
  void deliver_directive(const Event& event);
  void drop_connection(int host, int64_t after_ns);

  // workers.cc: processes.
  void start_workers(int host, const World& world);
  void signal_workers(int host, bool kill);
  void end_worker(int host, size_t local_rank, WorkerExit exit);
  void worker_event(const Event& event);
  void spread_failure(int world);
  void clear_host(int host);
  void schedule_gone(int host);
  void push_end(int host, size_t local_rank, int64_t after_ns, WorkerExit exit);

  // faults.cc: what goes wrong.
  void inject(const Fault& fault);
  void start_host(int host);
  uint16_t draw_port();
  void reserve_port(int host);
  void kill_host(int host, int64_t successor_after_ns);
  void fail_worker(int host, uint64_t variant);
  bool has_rivals() const;
  void cut(const Fault& fault);
  void kill_coordinator(int64_t reborn_after_ns, uint64_t variant);
  void start_coordinator(bool reborn, uint64_t variant);
  void wake_zombie();

  // checks.cc: the invariants.
  void fail(const std::string& what);
  void disturb(const char* why);
  void check_start(int host, const World& world);
  void check_departure(int host);
  void check_stop_request();
  void check_view(const Host& host);
  void on_formed(const Note& note);
  void on_recovered(const Note& note);
  void forget(const World& known);
  void check_cause(const Note& note, const char* what);
  void on_restarting(const Note& note);
  void on_generation_ended(const Note& note);
  void on_ended(const Note& note);
  bool is_excused(int world) const;
  bool is_silent(const Host& host) const;
  bool is_known_done(const Host& host) const;
  bool could_run() const;
  bool is_healthy() const;
  int newest() const { return static_cast<int>(truth_.worlds.size()) - 1; }

  bool tracing() const { return config_.trace; }
  void trace(const std::string& text);

  const SimConfig& config_;
  Rng rng_;
  int64_t now_ns_ = 0;
  uint64_t order_ = 0;
  std::vector<Event> queue_;  // a heap
  std::vector<Host> hosts_;
  Brain brain_;
  Brain zombie_;  // an earlier life that was only stopped, not dead
  Truth truth_;
  Pool<Report> reports_;
  Pool<Directive> directives_;
  Pool<WorkerExit> exits_;
  SimResult result_;
};

}  // namespace shanty::gang::sim
