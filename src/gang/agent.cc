#include "gang/agent.h"

#include <algorithm>
#include <utility>

#include "gang/agent_state.h"
#include "gang/text.h"

namespace shanty::gang {
namespace {

// SIGKILL is repeated while something is left: a process may fork between two looks at the list.
constexpr Duration kKillRepeat = std::chrono::seconds(1);
// A Tick that comes this much after its deadline means that the process itself was stopped.
constexpr Duration kOversleep = std::chrono::milliseconds(500);

struct Turn {
  AgentState& s;
  Now now;
  std::vector<AgentAction> actions;
  bool report = false;
};

void note(Turn& t, Note::Kind kind, std::string text) {
  t.actions.emplace_back(Note{.kind = kind,
                              .generation = t.s.world.generation,
                              .node_rank = t.s.world.node_rank,
                              .node = t.s.config.node,
                              .text = std::move(text)});
}

bool all_ended(const AgentState& s) {
  return s.exits.size() >= static_cast<size_t>(s.world.local_size);
}

bool all_succeeded(const AgentState& s) {
  return all_ended(s) && std::none_of(s.exits.begin(), s.exits.end(), [](const WorkerExit& e) {
           return e.failed() || e.requested;
         });
}

void kill_workers(Turn& t) {
  t.actions.emplace_back(SignalWorkers{.kill = true});
  t.s.killed = true;
  t.s.kill_at = t.now.mono + kKillRepeat;
}

// Asks running workers to end. A stop that has begun keeps its own deadline.
void begin_stop(Turn& t, Duration grace, const std::string& why, int signal = kDefaultStopSignal) {
  AgentState& s = t.s;
  // Ranks that all finished may leave strays behind, which have their own deadline.
  if (s.phase != AgentPhase::kRunning || all_succeeded(s)) return;
  s.phase = AgentPhase::kStopping;
  t.report = true;
  note(t, Note::Kind::kStopping, why);
  // No rank is left: nothing is worth waiting for.
  if (all_ended(s)) return kill_workers(t);
  t.actions.emplace_back(SignalWorkers{.kill = false, .signal = signal});
  s.kill_at = t.now.mono + grace;
}

void leave(Turn& t, Outcome outcome, std::string reason, int signal = kDefaultStopSignal) {
  if (!t.s.departure) t.s.departure = Departure{outcome, std::move(reason)};
  begin_stop(t, t.s.config.grace, t.s.departure->reason, signal);
  t.report = true;
}

void start(Turn& t, const World& world) {
  AgentState& s = t.s;
  s.phase = AgentPhase::kRunning;
  s.world = world;
  s.exits.clear();
  s.kill_at.reset();
  s.killed = false;
  if (world.node_rank == 0 && world.master_port == s.free_port) s.free_port = 0;
  t.actions.emplace_back(StartWorkers{world});
  t.report = true;
}

void on_run(Turn& t, const World& world) {
  if (t.s.departure || world.generation <= t.s.world.generation) return;
  if (t.s.has_workers()) {
    return begin_stop(t, t.s.config.restart_grace, "a newer generation is to be run");
  }
  start(t, world);
}

void on_directive(Turn& t, const Directive& d) {
  AgentState& s = t.s;
  if (d.to_incarnation != s.config.incarnation) return;
  if (d.epoch < s.epoch || (d.epoch == s.epoch && d.seq <= s.directive_seq)) return;
  s.epoch = d.epoch;
  s.directive_seq = d.seq;
  s.last_heard = t.now.mono;
  switch (d.wish) {
    case Wish::kWait:
      return;
    case Wish::kRun:
      return on_run(t, d.world);
    case Wish::kStop:
      if (s.world.generation > d.world.generation) return;
      if (d.outcome == Outcome::kNone) return begin_stop(t, s.config.restart_grace, d.reason);
      return begin_stop(t, s.config.grace, d.reason, d.stop_signal);
    case Wish::kEnd:
      return leave(t, d.outcome, d.reason);
  }
}

// Whether a stop of ours explains the end. A SIGKILL before we sent any is a stranger's: a process
// with much memory may take long to die of what its neighbours have felt by then.
bool was_requested(const AgentState& s, const WorkerExit& exit) {
  return s.phase == AgentPhase::kStopping && (exit.signal != SIGKILL || s.killed);
}

void add_exit(AgentState& s, WorkerExit exit) {
  exit.rank = s.world.first_rank + exit.local_rank;
  exit.requested = exit.requested || was_requested(s, exit);
  s.exits.push_back(std::move(exit));
}

bool has_ended(const AgentState& s, int local_rank) {
  return std::any_of(s.exits.begin(), s.exits.end(),
                     [&](const WorkerExit& e) { return e.local_rank == local_rank; });
}

// Of what was found at one look only a worker's own words say when it ended. One that left none may
// have been the first.
void date_silent_ends(std::vector<WorkerExit>& exits) {
  int64_t first_ns = 0;
  for (const WorkerExit& exit : exits) {
    if (exit.error_unix_ns == 0) continue;
    first_ns = first_ns == 0 ? exit.error_unix_ns : std::min(first_ns, exit.error_unix_ns);
  }
  for (WorkerExit& exit : exits) {
    if (exit.failed() && exit.error_unix_ns == 0) exit.error_unix_ns = first_ns;
  }
}

// All that ended before the stop that the first of them brings about: none of it was asked for.
void on_workers_ended(Turn& t, WorkersEnded event) {
  AgentState& s = t.s;
  if (!s.has_workers() || event.generation != s.world.generation) return;
  std::erase_if(event.exits, [&](const WorkerExit& exit) {
    return exit.local_rank < 0 || exit.local_rank >= s.world.local_size ||
           has_ended(s, exit.local_rank);
  });
  if (event.exits.empty()) return;
  date_silent_ends(event.exits);
  for (const WorkerExit& exit : event.exits) add_exit(s, exit);
  t.report = true;
  const auto failed = std::find_if(event.exits.begin(), event.exits.end(),
                                   [](const WorkerExit& exit) { return exit.failed(); });
  if (s.phase == AgentPhase::kStopping) {
    if (all_ended(s)) kill_workers(t);
  } else if (failed != event.exits.end()) {
    begin_stop(t, s.config.restart_grace,
               "rank " + std::to_string(s.world.first_rank + failed->local_rank) + " " +
                   describe_end(*failed));
  } else if (all_ended(s)) {
    s.kill_at = t.now.mono + s.config.restart_grace;
  }
}

// Ranks without an exit of their own get one, so that no end is ever taken for a success.
void add_missing_exits(Turn& t, const std::string& error) {
  for (int i = 0; i < t.s.world.local_size; ++i) {
    if (has_ended(t.s, i)) continue;
    add_exit(t.s, {.local_rank = i,
                   .exit_code = 1,
                   .exited_unix_ns = t.now.unix_ns,
                   .error_unix_ns = t.now.unix_ns,
                   .error = error});
  }
}

void on_start_failed(Turn& t, const StartFailed& event) {
  if (!t.s.has_workers() || event.generation != t.s.world.generation) return;
  add_missing_exits(t, event.reason);
  if (t.s.phase == AgentPhase::kStopping) return kill_workers(t);
  begin_stop(t, t.s.config.restart_grace, "the workers could not be started: " + event.reason);
}

void on_workers_gone(Turn& t, const WorkersGone& event) {
  AgentState& s = t.s;
  if (!s.has_workers() || event.generation != s.world.generation) return;
  add_missing_exits(t, "the worker vanished without an exit status");
  s.phase = all_succeeded(s) ? AgentPhase::kDone : AgentPhase::kIdle;
  s.kill_at.reset();
  t.report = true;
}

void on_port(Turn& t, uint16_t port) {
  t.s.free_port = port;
  // While workers run nobody needs it yet, and their end is reported at once.
  if (!t.s.has_workers()) t.report = true;
}

std::optional<TimePoint> patience_ends(const AgentState& s) {
  if (s.departure) return std::nullopt;
  const TimePoint since = std::max(s.awake_since, s.last_heard.value_or(s.started_at));
  return since + (s.last_heard ? s.config.orphan_limit : s.config.first_contact_limit);
}

void check_patience(Turn& t) {
  const auto ends = patience_ends(t.s);
  if (!ends || t.now.mono < *ends) return;
  const AgentConfig& c = t.s.config;
  leave(t, Outcome::kFailed,
        t.s.last_heard
            ? "no word from the coordinator for " + describe_duration(c.orphan_limit)
            : "no coordinator answered within " + describe_duration(c.first_contact_limit));
}

void check_deadlines(Turn& t) {
  check_patience(t);
  if (t.s.kill_at && t.now.mono >= *t.s.kill_at) kill_workers(t);
  if (t.now.mono >= t.s.last_report_at + t.s.config.report_every) t.report = true;
}

void send_report(Turn& t) {
  AgentState& s = t.s;
  s.last_report_at = t.now.mono;
  t.actions.emplace_back(SendReport{{.incarnation = s.config.incarnation,
                                     .seq = ++s.report_seq,
                                     .epoch = s.epoch,
                                     .node = s.config.node,
                                     .wanted_node_rank = s.config.wanted_node_rank,
                                     .slots = s.config.slots,
                                     .address = s.config.address,
                                     .free_port = s.free_port,
                                     .phase = s.phase,
                                     .world = s.world,
                                     .exits = s.exits,
                                     .leaving = s.departure.has_value(),
                                     .leave_reason = s.departure ? s.departure->reason : ""}});
}

// A process that was stopped itself has words waiting in its socket: its limits begin anew.
void wake(AgentState& s, Now now) {
  if (!s.started) {
    s.started = true;
    s.started_at = s.awake_since = now.mono;
    s.last_report_at = now.mono + -s.config.report_every;
  } else if (const auto due = next_deadline(s); due && now.mono > *due + kOversleep) {
    s.awake_since = now.mono;
  }
}

void dispatch(Turn& t, const AgentEvent& event) {
  struct Visitor {
    Turn& t;
    void operator()(const DirectiveReceived& e) { on_directive(t, e.directive); }
    void operator()(const WorkersEnded& e) { on_workers_ended(t, e); }
    void operator()(const WorkersGone& e) { on_workers_gone(t, e); }
    void operator()(const StartFailed& e) { on_start_failed(t, e); }
    void operator()(const LeaveRequested& e) { leave(t, Outcome::kStopped, e.reason, e.signal); }
    void operator()(const PortReserved& e) { on_port(t, e.port); }
    void operator()(const Tick&) {}
  };
  std::visit(Visitor{t}, event);
}

}  // namespace

std::vector<AgentAction> step_agent(AgentState& state, const AgentEvent& event, Now now) {
  if (state.exited) return {};
  Turn t{state, now, {}, false};
  wake(state, now);
  dispatch(t, event);
  check_deadlines(t);
  if (t.report) send_report(t);
  if (state.departure && !state.has_workers()) {
    state.exited = true;
    t.actions.emplace_back(ExitAgent{state.departure->outcome, state.departure->reason});
  }
  return std::move(t.actions);
}

std::optional<TimePoint> next_deadline(const AgentState& state) {
  if (state.exited) return std::nullopt;
  if (!state.started) return TimePoint{};
  TimePoint next = state.last_report_at + state.config.report_every;
  if (state.kill_at) next = std::min(next, *state.kill_at);
  if (const auto ends = patience_ends(state)) next = std::min(next, *ends);
  return next;
}

}  // namespace shanty::gang
