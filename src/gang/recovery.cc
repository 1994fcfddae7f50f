#include "gang/recovery.h"

#include <algorithm>

#include "gang/generation.h"
#include "gang/slots.h"

namespace shanty::gang {
namespace {

// Beyond the lease, for agents to find the new coordinator.
constexpr Duration kRecoveryMargin = std::chrono::seconds(2);

bool has_seat_in(const Member& m, Generation generation, size_t slot) {
  return m.present() && m.report.world.generation == generation &&
         static_cast<size_t>(m.report.world.node_rank) == slot;
}

bool is_in_newest(const CoordinatorState& s, size_t slot) {
  const Member* m = holder_of(s, slot);
  return s.max_generation > 0 && m != nullptr && has_seat_in(*m, s.max_generation, slot);
}

// Without the disk's word a whole generation may still be an old one, whose successor has not
// spoken yet. One that runs is adopted anyhow, for that decides nothing.
bool is_surely_newest(const CoordinatorState& s) {
  if (s.config.known_generation >= s.max_generation) return true;
  bool any_runs = false;
  for (size_t i = 0; i < s.slots.size(); ++i) {
    const AgentPhase phase = holder_of(s, i)->report.phase;
    if (phase != AgentPhase::kRunning && phase != AgentPhase::kDone) return false;
    any_runs = any_runs || phase == AgentPhase::kRunning;
  }
  return any_runs;
}

// The node rank an agent had is its own again, unless one of a newer generation claims it.
void claim_slot(Turn& t, uint64_t incarnation, Member& m) {
  CoordinatorState& s = t.s;
  const World& world = m.report.world;
  if (world.generation == 0 || m.report.leaving || !m.refusal.empty()) return;
  if (world.node_rank < 0 || static_cast<size_t>(world.node_rank) >= s.slots.size()) return;
  if (m.slot == world.node_rank) return;
  const auto slot = static_cast<size_t>(world.node_rank);
  if (s.slots[slot] != 0) {
    Member& holder = s.members.at(s.slots[slot]);
    if (holder.report.world.generation >= world.generation) return;
    vacate(t, holder);
  }
  vacate(t, m);
  s.slots[slot] = incarnation;
  m.slot = world.node_rank;
}

Generation newest_claimed(const CoordinatorState& s) {
  Generation newest = 0;
  for (size_t i = 0; i < s.slots.size(); ++i) {
    const Member* m = holder_of(s, i);
    if (m != nullptr) newest = std::max(newest, m->report.world.generation);
  }
  return newest;
}

// Seats of the adopted generation, from the reports of those in it. Returns how many.
size_t take_seats(Turn& t, Generation generation) {
  CoordinatorState& s = t.s;
  size_t found = 0;
  s.seats.assign(s.slots.size(), Seat{});
  for (size_t i = 0; i < s.slots.size(); ++i) {
    const auto it = s.members.find(s.slots[i]);
    if (it == s.members.end() || !has_seat_in(it->second, generation, i)) continue;
    Member& m = it->second;
    const World& world = m.report.world;
    s.seats[i] = {.incarnation = it->first,
                  .node = m.report.node,
                  .first_rank = world.first_rank,
                  .local_size = world.local_size};
    m.seat = static_cast<int>(i);
    s.world = world;
    ++found;
  }
  return found;
}

// Node ranks nobody in the generation speaks for: lost, unless another agent is there, which means
// that the generation was only partly started or that its holder was replaced meanwhile.
void settle_missing_seats(Turn& t) {
  CoordinatorState& s = t.s;
  const int64_t silent_since = t.now.unix_ns - (t.now.mono - s.phase_since).count();
  for (size_t i = 0; i < s.seats.size(); ++i) {
    if (s.seats[i].incarnation != 0) continue;
    s.seats[i].lost = true;
    if (s.slots[i] != 0) {
      s.interrupted = true;
    } else {
      s.candidates.push_back({.node_rank = static_cast<int>(i),
                              .node_reason = "node lost: no word since the coordinator came back",
                              .unix_ns = silent_since});
    }
  }
}

void adopt(Turn& t, Generation generation) {
  CoordinatorState& s = t.s;
  s.acted = true;
  s.candidates.clear();
  const size_t found = take_seats(t, generation);
  s.interrupted =
      generation < s.max_generation || static_cast<size_t>(s.world.node_count) != s.slots.size();
  s.restarts = s.world.restart_count;
  s.phase = JobPhase::kRunning;
  fill_slots(t);
  settle_missing_seats(t);
  t.note(Note::Kind::kRecovered, "found generation " + std::to_string(generation) + " on " +
                                     std::to_string(found) + " of " +
                                     std::to_string(s.slots.size()) + " nodes");
  for (const Seat& seat : s.seats) {
    if (seat.incarnation != 0) observe_seat(t, s.members.at(seat.incarnation));
  }
  t.enter(JobPhase::kRunning);
}

// Whether `m` speaks of a generation that another life formed and this one knows nothing of.
bool is_news(const CoordinatorState& s, const Member& m) {
  if (m.report.leaving) return false;
  switch (s.phase) {
    case JobPhase::kForming:
      return !s.acted && m.report.world.generation > 0;
    case JobPhase::kRunning:
    case JobPhase::kStopping:
      return m.report.world.generation > s.world.generation;
    case JobPhase::kRecovering:
    case JobPhase::kEnding:
    case JobPhase::kFinished:
      return false;
  }
  return false;
}

}  // namespace

void begin_recovery(Turn& t) {
  for (auto& [incarnation, m] : t.s.members) m.seat = -1;
  t.s.seats.clear();
  t.enter(JobPhase::kRecovering);
  listen_anew(t);
}

void listen_anew(Turn& t) { t.s.listen_until = t.now.mono + t.s.config.lease + kRecoveryMargin; }

void consider_recovery(Turn& t, Member& m) {
  if (is_news(t.s, m)) begin_recovery(t);
  if (t.s.phase == JobPhase::kRecovering) claim_slot(t, m.report.incarnation, m);
}

bool conclude_recovery(Turn& t) {
  CoordinatorState& s = t.s;
  const bool complete =
      first_slot(s, [&](size_t i) { return !is_in_newest(s, i); }) < 0 && is_surely_newest(s);
  if (!complete && t.now.mono < s.listen_until) return false;
  if (const Generation newest = newest_claimed(s); newest > 0) {
    adopt(t, newest);
  } else {
    t.enter(JobPhase::kForming);
    fill_slots(t);
  }
  return true;
}

}  // namespace shanty::gang
