#include "gang/coordinator.h"

#include <algorithm>
#include <utility>

#include "gang/coordinator_turn.h"
#include "gang/directive.h"
#include "gang/generation.h"
#include "gang/membership.h"
#include "gang/recovery.h"
#include "gang/slots.h"

namespace shanty::gang {
namespace {

// A step that comes this much after the deadline it asked for means that the process itself was
// stopped: words wait in its sockets, and leases count from here.
constexpr Duration kOversleep = std::chrono::milliseconds(500);
// It looks at the clock this often while it measures silence, so that it notices such a stop before
// a lease seems to have run out.
constexpr int kLooksPerLease = 4;
// Phases one step can pass through: recovering, running, stopping, forming, running, ending,
// finished, and one to spare. More is a bug that would otherwise spin.
constexpr int kMaxMoves = 8;

void begin(Turn& t) {
  CoordinatorState& s = t.s;
  const CoordinatorConfig& c = s.config;
  s.started = true;
  s.awake_since = t.now.mono;
  s.epoch = std::max<uint64_t>(c.first_epoch, 1);
  // Another life may have had this epoch without our knowing; its numbers are below ours.
  s.seq = t.now.unix_ns > 0 ? static_cast<uint64_t>(t.now.unix_ns) : 0;
  s.slots.assign(static_cast<size_t>(std::max(c.node_count, 1)), 0);
  s.history = c.known_failures;
  s.restarts = static_cast<int>(s.history.size());
  s.max_generation = c.known_generation;
  for (const Failure& f : s.history) s.max_generation = std::max(s.max_generation, f.generation);
  s.next_waiting_note = t.now.mono + c.lease;
  t.enter(JobPhase::kForming);
  if (c.recovering) begin_recovery(t);
  if (c.known_outcome != Outcome::kNone) {
    s.outcome = c.known_outcome;
    s.end_reason = c.known_reason;
    t.enter(JobPhase::kEnding);
  }
}

void wake(Turn& t) {
  if (!t.s.started) begin(t);
  const auto due = next_deadline(t.s);
  if (due && t.now.mono > *due + kOversleep) {
    t.s.awake_since = t.now.mono;
    if (t.s.phase == JobPhase::kRecovering) listen_anew(t);
  }
  t.s.last_step = t.now.mono;
}

bool move(Turn& t) {
  switch (t.s.phase) {
    case JobPhase::kRecovering:
      return conclude_recovery(t);
    case JobPhase::kForming:
      return form(t);
    case JobPhase::kRunning:
      return watch(t);
    case JobPhase::kStopping:
      return conclude_stop(t);
    case JobPhase::kEnding:
      return finish(t);
    case JobPhase::kFinished:
      return false;
  }
  return false;
}

void request_stop(CoordinatorState& s, const StopRequested& request) {
  if (s.stop_reason) return;
  s.stop_reason = request.reason;
  s.stop_signal = request.signal;
}

// Returns the incarnation that reported, 0 = none.
uint64_t take_in(Turn& t, const CoordinatorEvent& event) {
  struct Visitor {
    Turn& t;
    uint64_t operator()(const ReportReceived& e) {
      return hear_report(t, e.report) != nullptr ? e.report.incarnation : 0;
    }
    uint64_t operator()(const AgentDisconnected& e) {
      hear_disconnect(t, e.incarnation);
      return 0;
    }
    uint64_t operator()(const StopRequested& e) {
      request_stop(t.s, e);
      return 0;
    }
    uint64_t operator()(const Tick&) { return 0; }
  };
  return std::visit(Visitor{t}, event);
}

std::optional<TimePoint> phase_deadline(const CoordinatorState& s) {
  const CoordinatorConfig& c = s.config;
  switch (s.phase) {
    case JobPhase::kRecovering:
      return s.listen_until;
    case JobPhase::kForming:
      return std::min(s.next_waiting_note, s.phase_since + c.join_limit);
    case JobPhase::kRunning:
      return start_deadline(s);
    case JobPhase::kStopping:
      return s.phase_since + c.agent_grace + c.stop_limit;
    case JobPhase::kEnding:
      return std::max(s.listen_until, s.phase_since + c.end_limit);
    case JobPhase::kFinished:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::vector<CoordinatorAction> step_coordinator(CoordinatorState& state,
                                                const CoordinatorEvent& event, Now now) {
  if (state.phase == JobPhase::kFinished) return {};
  Turn t{state, now, {}};
  wake(t);
  const uint64_t reporter = take_in(t, event);
  expire_leases(t);
  if (t.refill) fill_slots(t);
  for (int moves = 0; moves < kMaxMoves && move(t); ++moves) continue;
  if (t.wish_changed) {
    send_wishes(t);
  } else if (reporter != 0) {
    send_wish(t, reporter, state.members.at(reporter));
  }
  return std::move(t.actions);
}

std::optional<TimePoint> next_deadline(const CoordinatorState& state) {
  if (!state.started) return TimePoint{};
  if (state.phase == JobPhase::kFinished) return std::nullopt;
  std::optional<TimePoint> next = phase_deadline(state);
  const auto sooner = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (state.next_lease_check) sooner(*state.next_lease_check);
  const bool watches_clock = state.next_lease_check || state.phase == JobPhase::kRecovering;
  if (watches_clock) sooner(state.last_step + state.config.lease / kLooksPerLease);
  return next;
}

const char* to_string(Note::Kind kind) {
  switch (kind) {
    case Note::Kind::kAgentJoined:
      return "agent_joined";
    case Note::Kind::kAgentLost:
      return "agent_lost";
    case Note::Kind::kAgentLeft:
      return "agent_left";
    case Note::Kind::kAgentRefused:
      return "agent_refused";
    case Note::Kind::kWaiting:
      return "waiting";
    case Note::Kind::kWorldFormed:
      return "world_formed";
    case Note::Kind::kWorkerFailed:
      return "worker_failed";
    case Note::Kind::kGenerationEnded:
      return "generation_ended";
    case Note::Kind::kRestarting:
      return "restarting";
    case Note::Kind::kStopping:
      return "stopping";
    case Note::Kind::kRecovered:
      return "recovered";
    case Note::Kind::kEnded:
      return "ended";
  }
  return "?";
}

}  // namespace shanty::gang
