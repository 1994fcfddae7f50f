#include <algorithm>

#include "gang/generation.h"
#include "gang/text.h"

namespace shanty::gang {
namespace {

constexpr Duration kWaitingNoteEvery = std::chrono::seconds(10);

bool is_here(const Member* m) { return m != nullptr && m->present() && m->connected; }

bool lacks_port(const CoordinatorState& s, size_t slot, const Member& m) {
  return slot == 0 && s.config.master_port == 0 && m.report.free_port == 0;
}

bool is_ready(const CoordinatorState& s, size_t slot) {
  const Member* m = holder_of(s, slot);
  return is_here(m) && !m->has_workers() && !lacks_port(s, slot, *m);
}

std::string describe_missing(const CoordinatorState& s) {
  std::vector<int> absent;
  std::vector<int> busy;
  for (size_t i = 0; i < s.slots.size(); ++i) {
    if (is_ready(s, i)) continue;
    (is_here(holder_of(s, i)) ? busy : absent).push_back(static_cast<int>(i));
  }
  std::string text = absent.empty() ? "" : list_node_ranks(absent);
  if (!busy.empty())
    text += (text.empty() ? "" : "; and for ") + list_node_ranks(busy) + " to get idle";
  return text;
}

void note_waiting(Turn& t) {
  CoordinatorState& s = t.s;
  if (t.now.mono < s.next_waiting_note) return;
  s.next_waiting_note = t.now.mono + kWaitingNoteEvery;
  const int64_t waited_s = (t.now.mono - s.phase_since) / std::chrono::seconds(1);
  t.note(Note::Kind::kWaiting,
         "waiting for " + describe_missing(s) + " (" + std::to_string(waited_s) + " s so far)");
}

// Ranks are prefix sums of the nodes' worker counts, in node-rank order.
void take_seats(CoordinatorState& s) {
  for (auto& [incarnation, m] : s.members) m.seat = -1;
  s.seats.assign(s.slots.size(), Seat{});
  int rank = 0;
  for (size_t i = 0; i < s.slots.size(); ++i) {
    Member& m = s.members.at(s.slots[i]);
    m.seat = static_cast<int>(i);
    s.seats[i] = {.incarnation = s.slots[i],
                  .node = m.report.node,
                  .first_rank = rank,
                  .local_size = m.report.slots};
    rank += m.report.slots;
  }
  s.world.world_size = rank;
}

std::vector<Failure> recent(const std::vector<Failure>& history) {
  const size_t skipped = history.size() - std::min(history.size(), kMaxHistory);
  return {history.begin() + static_cast<ptrdiff_t>(skipped), history.end()};
}

void form_world(Turn& t) {
  CoordinatorState& s = t.s;
  const Report& master = holder_of(s, 0)->report;
  s.world = {.generation = ++s.max_generation,
             .node_count = static_cast<int>(s.slots.size()),
             .master_addr = s.config.master_addr.empty() ? master.address : s.config.master_addr,
             .master_port = s.config.master_port != 0 ? s.config.master_port : master.free_port,
             .restart_count = s.restarts,
             .history = recent(s.history)};
  take_seats(s);
  s.candidates.clear();
  s.interrupted = false;
  s.all_started = false;
  s.acted = true;
  t.actions.emplace_back(Note{.kind = Note::Kind::kWorldFormed,
                              .generation = s.world.generation,
                              .text = "generation " + std::to_string(s.world.generation) + ": " +
                                      std::to_string(s.world.world_size) +
                                      (s.world.world_size == 1 ? " rank on " : " ranks on ") +
                                      std::to_string(s.world.node_count) +
                                      (s.world.node_count == 1 ? " node" : " nodes"),
                              .world = world_of_seat(s, 0)});
  t.enter(JobPhase::kRunning);
}

}  // namespace

World world_of_seat(const CoordinatorState& s, size_t seat) {
  World world = s.world;
  world.node_rank = static_cast<int>(seat);
  world.first_rank = s.seats[seat].first_rank;
  world.local_size = s.seats[seat].local_size;
  return world;
}

bool form(Turn& t) {
  CoordinatorState& s = t.s;
  if (s.stop_reason) {
    t.enter(JobPhase::kStopping);
    return true;
  }
  if (first_slot(s, [&](size_t i) { return !is_ready(s, i); }) < 0) {
    form_world(t);
    return true;
  }
  if (t.now.mono >= s.phase_since + s.config.join_limit) {
    end(t, Outcome::kFailed,
        "gave up waiting for " + describe_missing(s) + " after " +
            describe_duration(s.config.join_limit));
    return true;
  }
  note_waiting(t);
  return false;
}

}  // namespace shanty::gang
