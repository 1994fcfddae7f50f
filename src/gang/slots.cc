#include "gang/slots.h"

#include <algorithm>
#include <tuple>

#include "gang/generation.h"

namespace shanty::gang {
namespace {

bool is_fixed(const Member& m) { return m.report.wanted_node_rank >= 0; }

bool waits_for_slot(const Member& m) {
  return m.slot < 0 && m.present() && !m.report.leaving && m.refusal.empty();
}

bool can_take(const CoordinatorState& s, size_t slot, const Member& m) {
  const Member* holder = holder_of(s, slot);
  if (holder == nullptr || !holder->connected) return true;
  return s.phase == JobPhase::kForming && is_fixed(m) && !is_fixed(*holder);
}

bool is_free(const CoordinatorState& s, int slot) {
  return slot >= 0 && static_cast<size_t>(slot) < s.slots.size() &&
         s.slots[static_cast<size_t>(slot)] == 0;
}

// The rank of an agent that ran on the same host and whose connection is closed: its successor.
int slot_of_predecessor(const CoordinatorState& s, const Member& m) {
  for (size_t i = 0; i < s.slots.size(); ++i) {
    const Member* holder = holder_of(s, i);
    if (holder != nullptr && !holder->connected && !is_fixed(*holder) &&
        holder->report.node == m.report.node) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int choose_slot(const CoordinatorState& s, const Member& m) {
  if (is_fixed(m)) {
    const int wanted = m.report.wanted_node_rank;
    return can_take(s, static_cast<size_t>(wanted), m) ? wanted : -1;
  }
  const World& before = m.report.world;
  if (before.generation > 0 && is_free(s, before.node_rank)) return before.node_rank;
  const auto free = std::find(s.slots.begin(), s.slots.end(), uint64_t{0});
  if (free != s.slots.end()) return static_cast<int>(free - s.slots.begin());
  return slot_of_predecessor(s, m);
}

// Removes the holder of a slot that another member takes.
void evict(Turn& t, uint64_t incarnation) {
  Member& holder = t.s.members.at(incarnation);
  vacate(t, holder);
  if (holder.connected) return;
  lose_seat(t, holder, "node lost: its agent was replaced", holder.last_heard_unix_ns);
  holder.lost = true;
}

}  // namespace

bool place(Turn& t, uint64_t incarnation, Member& m) {
  if (!waits_for_slot(m)) return m.slot >= 0;
  t.s.waiting.insert(incarnation);
  if (t.s.phase == JobPhase::kRecovering) return false;
  const int slot = choose_slot(t.s, m);
  if (slot < 0) return false;
  uint64_t& holder = t.s.slots[static_cast<size_t>(slot)];
  const uint64_t evicted = holder;
  if (evicted != 0) evict(t, evicted);
  holder = incarnation;
  m.slot = slot;
  t.s.waiting.erase(incarnation);
  return true;
}

void vacate(Turn& t, Member& m) {
  if (m.slot < 0) return;
  t.s.slots[static_cast<size_t>(m.slot)] = 0;
  m.slot = -1;
  t.s.waiting.insert(m.report.incarnation);
  t.refill = true;
}

void fill_slots(Turn& t) {
  std::vector<std::tuple<bool, uint64_t, uint64_t>> waiting;  // not fixed, join order, incarnation
  for (const uint64_t incarnation : t.s.waiting) {
    const auto it = t.s.members.find(incarnation);
    if (it == t.s.members.end() || !waits_for_slot(it->second)) continue;
    waiting.emplace_back(!is_fixed(it->second), it->second.join_order, incarnation);
  }
  t.s.waiting.clear();
  std::sort(waiting.begin(), waiting.end());
  for (const auto& [loose, order, incarnation] : waiting) {
    place(t, incarnation, t.s.members.at(incarnation));
  }
}

}  // namespace shanty::gang
