#include "doctor/flight/analysis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "doctor/flight/dump.h"
#include "doctor/flight/survey.h"
#include "doctor/flight/value.h"
#include "doctor/flight/wait_graph.h"

namespace shanty::flight {
namespace {

// Of causes beyond these the victims are not counted.
constexpr size_t kMaxCountedCauses = 256;

using RankIndex = std::unordered_map<int, uint32_t>;

// All members of a group that have a dump, those too that never did anything in it.
struct Attendance {
  std::vector<Member> members;
  std::vector<int> without_dump;
};

Attendance attendance_of(const DumpSet& set, const RankIndex& index, const Survey& survey,
                         uint32_t group) {
  Attendance out;
  out.members = survey.members[group];
  if (out.members.size() == set.tables.group(group).ranks.size()) return out;
  std::vector<bool> seen(set.ranks.size());
  for (const Member& member : out.members) seen[member.rank_index] = true;
  for (const int rank : set.tables.group(group).ranks) {
    const auto at = index.find(rank);
    if (at == index.end()) {
      out.without_dump.push_back(rank);
    } else if (!seen[at->second]) {
      // A ring that went round may have lost all it did there: then nothing is known of it.
      if (set.ranks[at->second].wrapped) {
        out.without_dump.push_back(rank);
      } else {
        out.members.push_back({at->second, {.group = group}});
      }
    }
  }
  return out;
}

uint32_t pending_seq(const DumpSet& set, const Member& member) {
  if (member.seen.pending == kNoId) return kNoId;
  return set.ranks[member.rank_index].entries[member.seen.pending].seq;
}

// The collective at which the group stands; nullopt: it does not.
struct Stand {
  uint32_t seq = 0;
  bool after_timeout = false;
};
std::optional<Stand> where_it_stands(const DumpSet& set, const std::vector<Member>& members) {
  uint32_t pending = kNoId;
  uint32_t least = kNoId;
  uint32_t most = 0;
  const Member* foremost = nullptr;
  for (const Member& member : members) {
    pending = std::min(pending, pending_seq(set, member));
    least = std::min(least, member.seen.last_seq);
    if (member.seen.last_seq > most) foremost = &member;
    most = std::max(most, member.seen.last_seq);
  }
  if (pending != kNoId) return Stand{pending, false};
  // Nothing is pending, yet a rank is missing: only a timeout can have ended that, and only where
  // "completed" was never said.
  if (foremost == nullptr || least >= most || foremost->seen.done_by_retired_seq == 0) return {};
  const RankTrace& trace = set.ranks[foremost->rank_index];
  const uint32_t entry = find_collective(trace, foremost->seen.group, least + 1);
  if (entry == kNoId || !needs_all(set.tables.call(trace.entries[entry].call))) return {};
  return Stand{least + 1, true};
}

struct CallAt {
  Member member;
  uint64_t hash = 0;
  uint32_t call = 0;
};

std::vector<CallAt> calls_at(const DumpSet& set, const std::vector<Member>& members, uint32_t group,
                             uint32_t seq) {
  std::vector<CallAt> calls;
  for (const Member& member : members) {
    const RankTrace& trace = set.ranks[member.rank_index];
    const uint32_t last = find_collective(trace, group, seq);
    if (last == kNoId) continue;
    CallAt at{member, 0, trace.entries[last].call};
    for (size_t i = last + 1; i-- > 0;) {
      const Entry& entry = trace.entries[i];
      if (entry.group != group || entry.p2p != 0) continue;
      if (entry.seq != seq) break;
      at.hash += set.tables.call(entry.call).match_hash;
    }
    if (at.call != 0) calls.push_back(at);
  }
  return calls;
}

// Whether the calls of one number fit; if not, who the fewer are.
void compare_calls(const DumpSet& set, const std::vector<Member>& members, uint32_t seq,
                   StuckGroup& out) {
  const std::vector<CallAt> calls = calls_at(set, members, out.group, seq);
  std::map<uint64_t, size_t> counts;
  for (const CallAt& at : calls) ++counts[at.hash];
  if (counts.size() < 2) return;
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  out.mismatch = Shape::kShapes;
  out.mismatch_seq = seq;
  out.majority = 2 * most->second > calls.size();
  const auto usual = std::find_if(calls.begin(), calls.end(),
                                  [&](const CallAt& at) { return at.hash == most->first; });
  out.odd.clear();
  for (const CallAt& at : calls) {
    if (out.majority && at.hash == most->first) continue;
    out.odd.push_back(at.member);
    if (set.tables.call(at.call).op != set.tables.call(usual->call).op) {
      out.mismatch = Shape::kOperation;
    }
  }
}

void sort_members(const DumpSet& set, const Attendance& attendance, StuckGroup& out) {
  size_t started = 0;
  for (const Member& member : attendance.members) {
    if (member.seen.last_seq < out.seq) {
      out.absent.push_back(member);
      continue;
    }
    out.arrived.push_back(member);
    if (member.seen.done_seq >= out.seq && !out.after_timeout) continue;
    ++out.not_completed;
    const RankTrace& trace = set.ranks[member.rank_index];
    const uint32_t entry = find_collective(trace, out.group, out.seq);
    if (entry == kNoId) continue;
    if (trace.entries[entry].state == kScheduled) ++out.not_started;
    started += trace.entries[entry].state == kStarted ? 1 : 0;
  }
  if (started == 0) out.not_started = 0;
}

std::optional<StuckGroup> look_at_group(const DumpSet& set, const RankIndex& index,
                                        const Survey& survey, uint32_t group) {
  if (survey.members[group].empty()) return {};
  const Attendance attendance = attendance_of(set, index, survey, group);
  if (attendance.members.size() + attendance.without_dump.size() < 2) return {};
  const auto stand = where_it_stands(set, attendance.members);
  const uint32_t mismatch = survey.first_mismatch[group];
  if (!stand && mismatch == kNoId) return {};
  StuckGroup out{.group = group};
  if (stand) {
    out.seq = stand->seq;
    out.after_timeout = stand->after_timeout;
    out.without_dump = attendance.without_dump;
    sort_members(set, attendance, out);
    compare_calls(set, out.arrived, out.seq, out);
  }
  if (out.mismatch == Shape::kNone && mismatch != kNoId) {
    compare_calls(set, attendance.members, mismatch, out);
    // Other shapes that went through are how some programs work (uneven gathers).
    if (out.mismatch == Shape::kShapes) out.mismatch = Shape::kNone;
    if (out.mismatch == Shape::kNone && !stand) return {};
  }
  return out;
}

// Ranks of a group by their number in it.
int global_rank(const Group& group, int rank_in_group) {
  if (rank_in_group < 0 || static_cast<size_t>(rank_in_group) >= group.ranks.size()) return -1;
  return group.ranks[static_cast<size_t>(rank_in_group)];
}

// The first send and the first receive of each pair that have not completed are taken for each
// other: those of one pair complete in order.
std::vector<PendingP2p> pair_p2p(const DumpSet& set, const RankIndex& index, const Survey& survey) {
  struct Direction {
    uint32_t group;
    int source;
    int target;
    auto operator<=>(const Direction&) const = default;
  };
  std::map<Direction, std::pair<std::optional<PendingP2p>, std::optional<PendingP2p>>> pairs;
  for (uint32_t i = 0; i < set.ranks.size(); ++i) {
    for (const uint32_t at : survey.p2p_tails[i]) {
      const Entry& entry = set.ranks[i].entries[at];
      const Call& call = set.tables.call(entry.call);
      const Group& group = set.tables.group(entry.group);
      const int source = global_rank(group, call.source);
      const int target = global_rank(group, call.target);
      const bool sends = call.op == "send";
      auto& both = pairs[{entry.group, source, target}];
      auto& side = sends ? both.first : both.second;
      if (!side) side = PendingP2p{.rank_index = i, .entry = at, .peer = sends ? target : source};
    }
  }
  std::vector<PendingP2p> out;
  for (auto& [direction, both] : pairs) {
    PendingP2p one = both.first ? *both.first : *both.second;
    if (const auto peer = index.find(one.peer); peer != index.end()) {
      one.peer_index = peer->second;
    }
    if (both.first && both.second) one.peer_entry = both.second->entry;
    if (one.peer_index != one.rank_index) out.push_back(one);
  }
  return out;
}

bool p2p_fits(const DumpSet& set, const PendingP2p& p2p) {
  const Call& a = set.tables.call(set.ranks[p2p.rank_index].entries[p2p.entry].call);
  const Call& b = set.tables.call(set.ranks[p2p.peer_index].entries[p2p.peer_entry].call);
  return a.numel == b.numel;
}

// Ranks, then stuck groups, then sends and receives are the nodes.
class CauseFinder {
 public:
  CauseFinder(const DumpSet& set, Analysis& out)
      : set_(set),
        out_(out),
        first_group_(static_cast<uint32_t>(set.ranks.size())),
        first_p2p_(first_group_ + static_cast<uint32_t>(out.stuck.size())),
        graph_(first_p2p_ + out.p2p.size()) {
    add_edges();
    for (const auto& root : graph_.roots()) take_root(root);
    add_partial_groups();
    order_groups();
    count_victims();
  }

 private:
  void add_edges() {
    for (uint32_t g = 0; g < out_.stuck.size(); ++g) {
      const StuckGroup& stuck = out_.stuck[g];
      for (const Member& member : stuck.arrived) {
        if (stuck.after_timeout || member.seen.done_seq < stuck.seq) {
          graph_.add(member.rank_index, first_group_ + g);
        }
      }
      for (const Member& member : stuck.absent) graph_.add(first_group_ + g, member.rank_index);
    }
    for (uint32_t p = 0; p < out_.p2p.size(); ++p) {
      const PendingP2p& p2p = out_.p2p[p];
      graph_.add(p2p.rank_index, first_p2p_ + p);
      if (p2p.peer_index == kNoId) continue;
      if (p2p.peer_entry != kNoId) {
        graph_.add(p2p.peer_index, first_p2p_ + p);
      } else {
        graph_.add(first_p2p_ + p, p2p.peer_index);
      }
    }
  }

  void take_root(const std::vector<uint32_t>& root) {
    if (root.size() > 1) return take_circle(root);
    const uint32_t node = root.front();
    if (node < first_group_) {
      if (graph_.is_awaited(node)) take_absent(node);
    } else if (node < first_p2p_) {
      take_group(node - first_group_);
    } else {
      take_p2p(node - first_p2p_);
    }
  }

  void take_circle(const std::vector<uint32_t>& root) {
    Cause cause{.kind = Cause::Kind::kDeadlock};
    for (const uint32_t node : root) {
      if (node < first_group_) {
        cause.ranks.push_back(node);
      } else if (node < first_p2p_) {
        cause.groups.push_back(node - first_group_);
      } else {
        cause.p2p.push_back(node - first_p2p_);
      }
    }
    add(std::move(cause));
  }

  // Ranks that are missing in the same largest group are one cause.
  void take_absent(uint32_t rank) {
    if (absent_groups_.empty()) index_absent();
    const std::vector<uint32_t>& groups = absent_groups_[rank];
    uint32_t largest = kNoId;
    for (const uint32_t g : groups) {
      if (largest == kNoId || out_.stuck[g].arrived.size() > out_.stuck[largest].arrived.size()) {
        largest = g;
      }
    }
    const auto [at, is_new] = cause_of_group_.emplace(largest, out_.causes.size());
    if (is_new || largest == kNoId) {
      at->second = out_.causes.size();
      out_.causes.push_back({.kind = Cause::Kind::kNeverArrived, .groups = groups});
      for (uint32_t p = 0; p < out_.p2p.size() && largest == kNoId; ++p) {
        const PendingP2p& p2p = out_.p2p[p];
        if (p2p.peer_index == rank && p2p.peer_entry == kNoId) {
          out_.causes.back().p2p.push_back(p);
        }
      }
    }
    out_.causes[at->second].ranks.push_back(rank);
  }

  void index_absent() {
    absent_groups_.resize(set_.ranks.size());
    for (uint32_t g = 0; g < out_.stuck.size(); ++g) {
      for (const Member& member : out_.stuck[g].absent) {
        absent_groups_[member.rank_index].push_back(g);
      }
    }
  }

  void take_group(uint32_t g) {
    const StuckGroup& stuck = out_.stuck[g];
    if (stuck.mismatch != Shape::kNone) return;  // below, with those that wait for others too
    if (!stuck.without_dump.empty()) {
      add({.kind = Cause::Kind::kNoDump, .groups = {g}});
      return;
    }
    Cause cause{.kind = Cause::Kind::kNetwork, .groups = {g}};
    if (stuck.not_started > 0) {  // their queue did not even come to it
      for (const Member& member : stuck.arrived) {
        const uint32_t entry =
            find_collective(set_.ranks[member.rank_index], stuck.group, stuck.seq);
        if (entry != kNoId && set_.ranks[member.rank_index].entries[entry].state == kScheduled) {
          cause.ranks.push_back(member.rank_index);
        }
      }
    }
    add(std::move(cause));
  }

  void take_p2p(uint32_t p) {
    const PendingP2p& p2p = out_.p2p[p];
    Cause cause{.kind = Cause::Kind::kNoDump, .p2p = {p}};
    if (p2p.peer_index != kNoId) {
      cause.kind = p2p_fits(set_, p2p) ? Cause::Kind::kNetwork : Cause::Kind::kP2pMismatch;
      cause.ranks = {p2p.rank_index, p2p.peer_index};
    }
    add(std::move(cause));
  }

  // What does not fit is a cause wherever it stands.
  void add_partial_groups() {
    for (uint32_t g = 0; g < out_.stuck.size(); ++g) {
      const StuckGroup& stuck = out_.stuck[g];
      if (stuck.mismatch == Shape::kNone) continue;
      Cause cause{.kind = Cause::Kind::kMismatch, .groups = {g}};
      for (const Member& member : stuck.odd) cause.ranks.push_back(member.rank_index);
      add(std::move(cause));
    }
  }

  // Of several groups that miss the same ranks the one that stood first tells most: the others
  // came to theirs later, or because of it.
  void order_groups() {
    std::vector<int64_t> began(out_.stuck.size());
    for (uint32_t g = 0; g < out_.stuck.size(); ++g) began[g] = when_it_began(out_.stuck[g]);
    for (Cause& cause : out_.causes) {
      std::stable_sort(cause.groups.begin(), cause.groups.end(),
                       [&](uint32_t a, uint32_t b) { return began[a] < began[b]; });
    }
  }

  int64_t when_it_began(const StuckGroup& stuck) const {
    constexpr size_t kLookedAt = 8;
    int64_t began = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < std::min(stuck.arrived.size(), kLookedAt); ++i) {
      const RankTrace& trace = set_.ranks[stuck.arrived[i].rank_index];
      const uint32_t entry = find_collective(trace, stuck.group, stuck.seq);
      if (entry != kNoId) began = std::min(began, trace.entries[entry].created_unix_ns);
    }
    return began;
  }

  void add(Cause cause) { out_.causes.push_back(std::move(cause)); }

  void count_victims() {
    for (size_t i = 0; i < std::min(out_.causes.size(), kMaxCountedCauses); ++i) {
      Cause& cause = out_.causes[i];
      std::vector<uint32_t> nodes;
      const bool by_rank = cause.kind == Cause::Kind::kNeverArrived;
      if (by_rank) nodes = cause.ranks;
      for (const uint32_t g : cause.groups) nodes.push_back(first_group_ + g);
      for (const uint32_t p : cause.p2p) nodes.push_back(first_p2p_ + p);
      for (const uint32_t node : graph_.waiting_for(nodes)) {
        cause.victims += node < first_group_ ? 1 : 0;
      }
    }
    std::stable_sort(out_.causes.begin(), out_.causes.end(),
                     [](const Cause& a, const Cause& b) { return a.victims > b.victims; });
  }

  const DumpSet& set_;
  Analysis& out_;
  uint32_t first_group_;
  uint32_t first_p2p_;
  WaitGraph graph_;
  std::vector<std::vector<uint32_t>> absent_groups_;
  std::map<uint32_t, size_t> cause_of_group_;
};

void find_missing(const DumpSet& set, const RankIndex& index, Analysis& out) {
  std::vector<int> ranks;
  for (uint32_t g = 0; g < set.tables.group_count(); ++g) {
    const Group& group = set.tables.group(g);
    if (group.known && group.ranks.size() > ranks.size()) ranks = group.ranks;
  }
  std::sort(ranks.begin(), ranks.end());
  const int highest = set.ranks.empty() ? -1 : set.ranks.back().rank;
  out.world_size = std::max(ranks.empty() ? 0 : ranks.back() + 1, highest + 1);
  // A job of one group whose ranks are not listed: those between the dumps that are there.
  if (ranks.empty() && out.world_size <= static_cast<int>(kMaxGroupRanks)) {
    for (int rank = 0; rank <= highest; ++rank) ranks.push_back(rank);
  }
  for (const int rank : ranks) {
    if (!index.contains(rank)) out.missing.push_back(rank);
  }
}

}  // namespace

uint32_t find_collective(const RankTrace& trace, uint32_t group, uint32_t seq) {
  for (size_t i = trace.entries.size(); i-- > 0;) {
    const Entry& entry = trace.entries[i];
    if (entry.group == group && entry.p2p == 0 && entry.seq <= seq) {
      return entry.seq == seq ? static_cast<uint32_t>(i) : kNoId;
    }
  }
  return kNoId;
}

Analysis analyse(DumpSet& set, unsigned threads) {
  const Survey seen = survey(set, threads);
  RankIndex index;
  for (uint32_t i = 0; i < set.ranks.size(); ++i) index.emplace(set.ranks[i].rank, i);
  Analysis out;
  for (uint32_t g = 0; g < set.tables.group_count(); ++g) {
    if (auto stuck = look_at_group(set, index, seen, g)) out.stuck.push_back(std::move(*stuck));
  }
  out.p2p = pair_p2p(set, index, seen);
  find_missing(set, index, out);
  for (const RankTrace& trace : set.ranks) {
    if (!trace.entries.empty()) {
      out.newest_unix_ns = std::max(out.newest_unix_ns, trace.entries.back().created_unix_ns);
    }
  }
  CauseFinder(set, out);
  return out;
}

}  // namespace shanty::flight
