#include "gang/directive.h"

#include "gang/generation.h"

namespace shanty::gang {
namespace {

void wish_wait(Directive& d, std::string reason) {
  d.wish = Wish::kWait;
  d.reason = std::move(reason);
}

void wish_stop(const CoordinatorState& s, Directive& d) {
  d.wish = Wish::kStop;
  d.world.generation = s.max_generation;
  d.reason = s.stop_reason ? *s.stop_reason : "the generation has failed";
  d.outcome = s.stop_reason ? Outcome::kStopped : Outcome::kNone;
  d.stop_signal = s.stop_signal;
}

void wish_end(Directive& d, Outcome outcome, const std::string& reason) {
  d.wish = Wish::kEnd;
  d.outcome = outcome;
  d.reason = reason;
}

std::string why_no_slot(const CoordinatorState& s, const Member& m) {
  const int wanted = m.report.wanted_node_rank;
  if (wanted < 0) return "all node ranks are taken; this agent is a spare";
  const Member* holder = holder_of(s, static_cast<size_t>(wanted));
  return "node rank " + std::to_string(wanted) +
         (holder != nullptr ? " is held by " + holder->report.node : " is not free yet");
}

void wish_while_forming(const CoordinatorState& s, const Member& m, Directive& d) {
  if (m.has_workers()) return wish_stop(s, d);
  if (m.slot < 0) return wish_wait(d, why_no_slot(s, m));
  wish_wait(d, "waiting for node rank " + std::to_string(s.slot_cursor));
}

bool is_seated(const CoordinatorState& s, uint64_t incarnation, const Member& m) {
  return m.seat >= 0 && s.seats[static_cast<size_t>(m.seat)].incarnation == incarnation;
}

void wish_while_running(const CoordinatorState& s, uint64_t incarnation, const Member& m,
                        Directive& d) {
  if (!is_seated(s, incarnation, m)) {
    return m.has_workers() ? wish_stop(s, d) : wish_wait(d, why_no_slot(s, m));
  }
  d.wish = Wish::kRun;
  d.world = world_of_seat(s, static_cast<size_t>(m.seat));
  // Once the agent has the world, its history need not travel again.
  if (m.report.world.generation == s.world.generation) d.world.history.clear();
}

Directive wish_for(const CoordinatorState& s, uint64_t incarnation, const Member& m) {
  Directive d{.epoch = s.epoch, .to_incarnation = incarnation};
  if (!m.refusal.empty()) {
    wish_end(d, Outcome::kFailed, m.refusal);
    return d;
  }
  switch (s.phase) {
    case JobPhase::kRecovering:
      wish_wait(d, "the coordinator came back and listens to what the agents say");
      break;
    case JobPhase::kForming:
      wish_while_forming(s, m, d);
      break;
    case JobPhase::kRunning:
      wish_while_running(s, incarnation, m, d);
      break;
    case JobPhase::kStopping:
      wish_stop(s, d);
      break;
    case JobPhase::kEnding:
    case JobPhase::kFinished:
      wish_end(d, s.outcome, s.end_reason);
      break;
  }
  return d;
}

}  // namespace

void send_wish(Turn& t, uint64_t incarnation, Member& m) {
  if (!m.present() || !m.connected) return;
  Directive d = wish_for(t.s, incarnation, m);
  d.seq = ++t.s.seq;
  m.addressed = true;
  m.told_end = d.wish == Wish::kEnd;
  t.actions.emplace_back(SendDirective{std::move(d)});
}

void send_wishes(Turn& t) {
  for (auto& [incarnation, m] : t.s.members) send_wish(t, incarnation, m);
}

}  // namespace shanty::gang
