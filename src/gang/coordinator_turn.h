#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gang/coordinator_state.h"

namespace shanty::gang {

// One call of step_coordinator: the state it changes, the time, and what it wants done. The parts
// of the coordinator (membership, recovery, generation, directive) work on it.
struct Turn {
  CoordinatorState& s;
  Now now;
  std::vector<CoordinatorAction> actions;
  bool wish_changed = false;  // tell every agent, not only the one that reported
  bool refill = false;        // a slot came free or may be taken over

  void note(Note::Kind kind, std::string text) {
    actions.emplace_back(
        Note{.kind = kind, .generation = s.world.generation, .text = std::move(text)});
  }
  void note(Note::Kind kind, const Member& m, std::string text) {
    actions.emplace_back(Note{.kind = kind,
                              .generation = s.world.generation,
                              .node_rank = m.slot >= 0 ? m.slot : m.seat,
                              .node = m.report.node,
                              .text = std::move(text)});
  }
  void enter(JobPhase phase) {
    s.phase = phase;
    s.phase_since = now.mono;
    s.slot_cursor = 0;
    s.member_cursor = 0;
    wish_changed = true;
  }
};

// The member that holds a node rank, or nullptr.
inline const Member* holder_of(const CoordinatorState& s, size_t slot) {
  const auto it = s.members.find(s.slots[slot]);
  return it == s.members.end() ? nullptr : &it->second;
}

// The first node rank for which `bad` holds, or -1. Starts where the last search stopped, so that
// asking after each of n reports costs n steps in all.
template <typename Predicate>
int first_slot(CoordinatorState& s, Predicate bad) {
  const size_t n = s.slots.size();
  for (size_t k = 0; k < n; ++k) {
    const size_t i = (s.slot_cursor + k) % n;
    if (!bad(i)) continue;
    s.slot_cursor = i;
    return static_cast<int>(i);
  }
  return -1;
}

// The same over members.
template <typename Predicate>
const Member* first_member(CoordinatorState& s, Predicate bad) {
  const auto start = s.members.lower_bound(s.member_cursor);
  const auto search = [&](auto from, auto to) {
    while (from != to && !bad(from->second)) ++from;
    return from;
  };
  auto it = search(start, s.members.end());
  if (it == s.members.end()) {
    it = search(s.members.begin(), start);
    if (it == start) return nullptr;
  }
  s.member_cursor = it->first;
  return &it->second;
}

}  // namespace shanty::gang
