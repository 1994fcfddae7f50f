#include "gang/generation.h"

#include <algorithm>

#include "gang/slots.h"
#include "gang/text.h"
#include "gang/verdict.h"

namespace shanty::gang {
namespace {

bool is_current(const CoordinatorState& s) {
  return s.phase == JobPhase::kRunning || s.phase == JobPhase::kStopping;
}

Seat* seat_of(CoordinatorState& s, const Member& m) {
  if (!is_current(s) || m.seat < 0) return nullptr;
  Seat& seat = s.seats[static_cast<size_t>(m.seat)];
  return seat.incarnation == m.report.incarnation ? &seat : nullptr;
}

// The arrival, less what passed between first error and end by the worker's own clock.
int64_t began_unix_ns(const WorkerExit& exit, int64_t arrival_unix_ns) {
  if (exit.error_unix_ns <= 0 || exit.error_unix_ns > exit.exited_unix_ns) return arrival_unix_ns;
  return arrival_unix_ns - (exit.exited_unix_ns - exit.error_unix_ns);
}

void observe_exit(Turn& t, const Member& m, const WorkerExit& exit) {
  if (!exit.failed() || exit.requested) return;
  t.s.candidates.push_back({.exit = exit,
                            .node_rank = m.seat,
                            .node = m.report.node,
                            .unix_ns = began_unix_ns(exit, t.now.unix_ns)});
  t.actions.emplace_back(Note{.kind = Note::Kind::kWorkerFailed,
                              .generation = t.s.world.generation,
                              .node_rank = m.seat,
                              .node = m.report.node,
                              .text = "rank " + std::to_string(exit.rank) + " on " + m.report.node +
                                      " " + (exit.signal ? "was " : "") + describe_end(exit)});
}

// Its ranks did; descendants they left behind may still be there.
bool finished_all(const Report& r) {
  if (r.phase == AgentPhase::kDone) return true;
  return r.exits.size() >= static_cast<size_t>(r.world.local_size) &&
         std::none_of(r.exits.begin(), r.exits.end(),
                      [](const WorkerExit& e) { return e.failed() || e.requested; });
}

bool all_finished(CoordinatorState& s) {
  return !s.seats.empty() && !s.interrupted &&
         first_slot(s, [&](size_t i) { return !s.seats[i].finished; }) < 0;
}

void begin_stop(Turn& t, const std::string& why) {
  t.note(Note::Kind::kStopping, why);
  t.enter(JobPhase::kStopping);
}

// The one failure of the generation that ended: as an earlier life judged it, or as chosen now.
std::optional<Failure> judge(const CoordinatorState& s) {
  const auto known = std::find_if(s.history.begin(), s.history.end(), [&](const Failure& f) {
    return f.generation == s.world.generation;
  });
  if (known != s.history.end()) return *known;
  return choose_root_cause(s.candidates, s.world.generation);
}

std::vector<Failure> earlier_failures(const CoordinatorState& s) {
  std::vector<Failure> earlier;
  std::copy_if(s.history.begin(), s.history.end(), std::back_inserter(earlier),
               [&](const Failure& f) { return f.generation < s.world.generation; });
  return earlier;
}

void record(CoordinatorState& s, const Failure& failure) {
  if (s.history.empty() || s.history.back().generation < failure.generation) {
    s.history.push_back(failure);
  }
  trim_history(s);
}

void restart(Turn& t, const std::string& why, const std::optional<Failure>& failure) {
  t.s.acted = true;
  t.actions.emplace_back(Note{.kind = Note::Kind::kRestarting,
                              .generation = t.s.world.generation,
                              .text = "restarting: " + why,
                              .failure = failure});
  t.s.next_waiting_note = t.now.mono + t.s.config.lease;
  t.enter(JobPhase::kForming);
  fill_slots(t);
}

void restart_or_fail(Turn& t, const Failure& failure, const std::vector<Failure>& earlier) {
  CoordinatorState& s = t.s;
  const int restarts_before = std::max(s.world.restart_count, static_cast<int>(earlier.size()));
  const RestartRules rules{.max_restarts = s.config.max_restarts,
                           .restart_window = s.config.restart_window,
                           .restart_on_exit = s.config.restart_on_exit};
  const Decision decision = decide_restart(rules, earlier, restarts_before, failure, t.now.unix_ns);
  if (!decision.restart) return end(t, Outcome::kFailed, decision.reason, failure);
  s.restarts = restarts_before + 1;
  restart(t, decision.reason, failure);
}

void settle(Turn& t) {
  CoordinatorState& s = t.s;
  if (all_finished(s)) return end(t, Outcome::kSucceeded, "every rank ended with 0");
  const auto failure = judge(s);
  if (failure) {
    record(s, *failure);
    t.actions.emplace_back(Note{.kind = Note::Kind::kGenerationEnded,
                                .generation = s.world.generation,
                                .node_rank = failure->node_rank,
                                .node = failure->node,
                                .text = describe_failure(*failure),
                                .failure = failure});
  }
  if (s.stop_reason) return end(t, Outcome::kStopped, *s.stop_reason);
  if (failure) return restart_or_fail(t, *failure, earlier_failures(s));
  restart(t,
          "generation " + std::to_string(s.world.generation) +
              " was interrupted when the coordinator died",
          std::nullopt);
}

Duration time_to_stop(const CoordinatorConfig& c) { return c.agent_grace + c.stop_limit; }

// An agent that neither stops its workers nor dies would hold the job for ever.
bool give_up_stopping(Turn& t, const Member& m) {
  const Duration limit = time_to_stop(t.s.config);
  if (t.now.mono < t.s.phase_since + limit) return false;
  const int rank = m.slot >= 0 ? m.slot : m.seat;
  end(t, Outcome::kFailed,
      (rank >= 0 ? "node rank " + std::to_string(rank) + " (" + m.report.node + ")"
                 : m.report.node) +
          " did not stop its workers within " + describe_duration(limit));
  return true;
}

// A member may have taken up the generation before this one unseen, and must stop that first.
bool give_up_starting(Turn& t) {
  CoordinatorState& s = t.s;
  if (s.all_started || t.now.mono < *start_deadline(s)) return false;
  for (const auto& [incarnation, m] : s.members) {
    const bool is_late = m.present() && m.seat >= 0 && m.has_workers() &&
                         m.report.world.generation < s.world.generation;
    if (is_late) return give_up_stopping(t, m);
  }
  s.all_started = true;
  return false;
}

}  // namespace

std::optional<TimePoint> start_deadline(const CoordinatorState& s) {
  if (s.all_started) return std::nullopt;
  return s.phase_since + time_to_stop(s.config);
}

void observe_seat(Turn& t, Member& m) {
  CoordinatorState& s = t.s;
  Seat* seat = seat_of(s, m);
  const Report& r = m.report;
  if (seat == nullptr || r.world.generation != s.world.generation) return;
  for (size_t i = seat->exits_seen; i < r.exits.size(); ++i) observe_exit(t, m, r.exits[i]);
  seat->exits_seen = std::max(seat->exits_seen, r.exits.size());
  if (seat->lost) return;
  seat->finished = finished_all(r);
  // Stopped although nobody here asked for it: an earlier life did.
  if (seat->finished) return;
  if (r.phase == AgentPhase::kIdle || r.phase == AgentPhase::kStopping) s.interrupted = true;
}

void lose_seat(Turn& t, Member& m, const std::string& reason, int64_t unix_ns) {
  Seat* seat = seat_of(t.s, m);
  if (seat == nullptr || seat->finished || seat->lost) return;
  seat->lost = true;
  // A node that went silent after its ranks had ended is not why they did.
  const bool had_ended = m.report.phase == AgentPhase::kIdle && !m.report.leaving &&
                         m.report.world.generation == t.s.world.generation;
  if (had_ended || t.s.stop_reason) return;
  t.s.candidates.push_back({.node_rank = m.seat,
                            .node = m.report.node,
                            .node_reason = reason,
                            .node_left = m.report.leaving,
                            .unix_ns = unix_ns});
}

void trim_history(CoordinatorState& s) {
  const size_t limit = std::max(kMaxHistory, static_cast<size_t>(s.config.max_restarts) + 1);
  if (s.history.size() <= limit) return;
  s.history.erase(s.history.begin(), s.history.end() - static_cast<ptrdiff_t>(limit));
}

bool watch(Turn& t) {
  CoordinatorState& s = t.s;
  if (all_finished(s)) {
    end(t, Outcome::kSucceeded, "every rank ended with 0");
    return true;
  }
  if (s.stop_reason) {
    begin_stop(t, "stopping the job: " + *s.stop_reason);
  } else if (!s.candidates.empty()) {
    begin_stop(t, "stopping generation " + std::to_string(s.world.generation) + " after a failure");
  } else if (s.interrupted || s.max_generation > s.world.generation) {
    begin_stop(t, "generation " + std::to_string(s.world.generation) + " is not whole");
  } else {
    return give_up_starting(t);
  }
  return true;
}

bool conclude_stop(Turn& t) {
  const Member* busy =
      first_member(t.s, [](const Member& m) { return m.present() && m.has_workers(); });
  if (busy != nullptr) return give_up_stopping(t, *busy);
  settle(t);
  return true;
}

void end(Turn& t, Outcome outcome, std::string reason, const std::optional<Failure>& failure) {
  CoordinatorState& s = t.s;
  s.acted = true;
  s.outcome = outcome;
  s.end_reason = std::move(reason);
  t.actions.emplace_back(Note{.kind = Note::Kind::kEnded,
                              .generation = s.world.generation,
                              .text = s.end_reason,
                              .failure = failure,
                              .outcome = outcome});
  t.enter(JobPhase::kEnding);
}

bool finish(Turn& t) {
  CoordinatorState& s = t.s;
  const Member* here =
      first_member(s, [](const Member& m) { return m.present() && (m.connected || !m.told_end); });
  const bool waits = here != nullptr && t.now.mono < s.phase_since + s.config.end_limit;
  if (waits || t.now.mono < s.listen_until) return false;
  t.actions.emplace_back(Finish{s.outcome, s.end_reason});
  s.phase = JobPhase::kFinished;
  return true;
}

}  // namespace shanty::gang
