#include "gang/membership.h"

#include <algorithm>

#include "gang/generation.h"
#include "gang/recovery.h"
#include "gang/slots.h"
#include "gang/text.h"

namespace shanty::gang {
namespace {

// Members beyond the expected ones, dead ones included, that are remembered.
constexpr size_t kMaxSpareMembers = 1024;
constexpr int kMaxSlotsPerAgent = 4096;

std::string refusal_of(const CoordinatorState& s, const Report& r) {
  const int count = static_cast<int>(s.slots.size());
  if (r.wanted_node_rank >= count) {
    return "node rank " + std::to_string(r.wanted_node_rank) + " does not exist in a job of " +
           std::to_string(count) + (count == 1 ? " node" : " nodes");
  }
  if (r.slots < 1 || r.slots > kMaxSlotsPerAgent) {
    return "a node cannot run " + std::to_string(r.slots) + " workers";
  }
  return "";
}

bool forget_one(CoordinatorState& s) {
  auto oldest = s.members.end();
  for (auto it = s.members.begin(); it != s.members.end(); ++it) {
    if (it->second.present()) continue;
    if (oldest == s.members.end() || it->second.last_heard < oldest->second.last_heard) oldest = it;
  }
  if (oldest == s.members.end()) return false;
  s.members.erase(oldest);
  return true;
}

Member* admit(Turn& t, const Report& r) {
  CoordinatorState& s = t.s;
  if (s.members.size() >= s.slots.size() + kMaxSpareMembers && !forget_one(s)) return nullptr;
  Member& m = s.members[r.incarnation];
  m.join_order = s.joins++;
  m.refusal = refusal_of(s, r);
  return &m;
}

// An epoch at or above ours in the mouth of an agent we never spoke to is another life's.
void learn_epoch(CoordinatorState& s, const Member& m, uint64_t epoch) {
  if (epoch > s.epoch || (epoch == s.epoch && !m.addressed)) s.epoch = epoch + 1;
}

void learn_history(CoordinatorState& s, const World& world) {
  if (world.generation == s.world.generation) return;  // it came from here
  for (const Failure& f : world.history) {
    const auto at =
        std::lower_bound(s.history.begin(), s.history.end(), f.generation,
                         [](const Failure& known, Generation g) { return known.generation < g; });
    if (at == s.history.end() || at->generation != f.generation) s.history.insert(at, f);
  }
  trim_history(s);
}

void hear_departure(Turn& t, Member& m, bool first_word) {
  if (!m.report.leaving) return;
  if (first_word && t.s.phase != JobPhase::kEnding) {
    t.note(Note::Kind::kAgentLeft, m, m.report.node + " leaves: " + m.report.leave_reason);
  }
  lose_seat(t, m, "node left: " + m.report.leave_reason, t.now.unix_ns);
  vacate(t, m);
  m.gone = !m.has_workers();
}

void greet(Turn& t, const Member& m, bool is_new) {
  const std::string& node = m.report.node;
  if (!m.refusal.empty()) {
    return t.note(Note::Kind::kAgentRefused, m, node + " was refused: " + m.refusal);
  }
  const std::string place =
      m.slot >= 0 ? " as node rank " + std::to_string(m.slot) : " without a node rank yet";
  t.note(Note::Kind::kAgentJoined, m, node + (is_new ? " joined" : " came back") + place);
}

void lose(Turn& t, Member& m) {
  m.lost = true;
  const std::string silence = "no word for " + describe_duration(t.s.config.lease);
  if (t.s.phase != JobPhase::kEnding && (m.slot >= 0 || m.seat >= 0)) {
    t.note(Note::Kind::kAgentLost, m, m.report.node + " is lost: " + silence);
  }
  lose_seat(t, m, "node lost: " + silence, m.last_heard_unix_ns);
  vacate(t, m);
}

}  // namespace

Member* hear_report(Turn& t, const Report& r) {
  if (r.incarnation == 0) return nullptr;
  CoordinatorState& s = t.s;
  const auto it = s.members.find(r.incarnation);
  const bool is_new = it == s.members.end();
  Member* m = is_new ? admit(t, r) : &it->second;
  if (m == nullptr || (!is_new && (m->gone || r.seq <= m->report.seq))) return nullptr;

  learn_epoch(s, *m, r.epoch);
  learn_history(s, r.world);
  s.max_generation = std::max(s.max_generation, r.world.generation);
  const bool came_back = m->lost;
  const bool leaves = r.leaving && !m->report.leaving;
  m->report = r;
  m->last_heard = t.now.mono;
  m->last_heard_unix_ns = t.now.unix_ns;
  m->connected = true;
  m->lost = false;
  if (!s.next_lease_check) s.next_lease_check = t.now.mono + s.config.lease;

  consider_recovery(t, *m);
  observe_seat(t, *m);
  hear_departure(t, *m, leaves);
  place(t, r.incarnation, *m);
  if ((is_new || came_back) && s.phase != JobPhase::kEnding && !m->gone) greet(t, *m, is_new);
  return m;
}

void hear_disconnect(Turn& t, uint64_t incarnation) {
  const auto it = t.s.members.find(incarnation);
  if (it == t.s.members.end()) return;
  it->second.connected = false;
  t.refill = true;
}

void expire_leases(Turn& t) {
  CoordinatorState& s = t.s;
  if (!s.next_lease_check || t.now.mono < *s.next_lease_check) return;
  s.next_lease_check.reset();
  for (auto& [incarnation, m] : s.members) {
    if (!m.present()) continue;
    const TimePoint ends = std::max(m.last_heard, s.awake_since) + s.config.lease;
    if (t.now.mono >= ends) {
      lose(t, m);
    } else if (!s.next_lease_check || ends < *s.next_lease_check) {
      s.next_lease_check = ends;
    }
  }
}

}  // namespace shanty::gang
