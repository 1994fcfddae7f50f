#include "doctor/flight/survey.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <set>

#include "doctor/flight/value.h"

namespace shanty::flight {
namespace {

constexpr uint64_t kUnset = 0;

// A rank's groups, found by number: few, so the newest found is looked at first.
class SeenList {
 public:
  Seen& of(uint32_t group) {
    if (last_ < list_.size() && list_[last_].group == group) return list_[last_];
    uint32_t at = ids_.find(mix(1, group));
    if (at == kNoId) {
      at = static_cast<uint32_t>(list_.size());
      list_.push_back({.group = group});
      ids_.insert(mix(1, group), at);
    }
    last_ = at;
    return list_[at];
  }
  std::vector<Seen> take() { return std::move(list_); }

 private:
  std::vector<Seen> list_;
  IdMap ids_;
  size_t last_ = 0;
};

// Some recorders never say "completed": there "retired" is the best word there is.
bool states_tell(const RankTrace& trace) {
  return std::any_of(trace.entries.begin(), trace.entries.end(),
                     [](const Entry& entry) { return entry.state != kScheduled; });
}

struct RankView {
  std::vector<Seen> seen;
  std::vector<uint32_t> p2p_tail;
};

uint64_t peer_key(const Entry& entry, const Call& call) {
  return mix(
      mix(mix(mix(3, entry.group), call.op == "send" ? 1 : 2), static_cast<uint64_t>(call.source)),
      static_cast<uint64_t>(call.target));
}

// Sends and receives of one peer complete in order; a coalesced one completes with the entry that
// ends its batch, which has its number.
std::vector<uint32_t> find_p2p_tail(const RankTrace& trace, const Tables& tables, bool by_state) {
  std::vector<uint32_t> tail;
  std::set<uint64_t> settled;
  IdMap batches;  // (group, number) of batches that completed
  for (size_t i = trace.entries.size(); i-- > 0;) {
    const Entry& entry = trace.entries[i];
    if (entry.p2p == 0) continue;
    const Call& call = tables.call(entry.call);
    const bool done = by_state ? entry.state == kCompleted : entry.retired != 0;
    const uint64_t batch = mix(mix(5, entry.group), entry.seq);
    if (call.op == "coalesced") {
      if (done && batches.find(batch) == kNoId) batches.insert(batch, 1);
      continue;
    }
    if (call.op != "send" && call.op != "recv") continue;
    const uint64_t key = peer_key(entry, call);
    if (done || batches.find(batch) != kNoId) {
      settled.insert(key);
    } else if (!settled.contains(key)) {
      tail.push_back(static_cast<uint32_t>(i));
    }
  }
  std::reverse(tail.begin(), tail.end());
  return tail;
}

RankView view_rank(const RankTrace& trace, const Tables& tables) {
  SeenList list;
  const bool by_state = states_tell(trace);
  bool any_p2p = false;
  for (const Entry& entry : trace.entries) {
    any_p2p |= entry.p2p != 0;
    if (entry.p2p != 0 || entry.seq == 0) continue;
    Seen& seen = list.of(entry.group);
    if (seen.first_seq == 0) {
      seen.first_seq = entry.seq;
      seen.partial_first = trace.wrapped;
    }
    seen.last_seq = std::max(seen.last_seq, entry.seq);
    ++seen.entries;
    if (by_state ? entry.state == kCompleted : entry.retired != 0) {
      seen.done_seq = std::max(seen.done_seq, entry.seq);
      if (!by_state) seen.done_by_retired_seq = seen.done_seq;
    }
  }
  for (const auto& [group, status] : trace.status) {
    Seen& seen = list.of(group);
    seen.last_seq = std::max(seen.last_seq, status.last_enqueued);
    // A count beyond what was enqueued is nonsense.
    if (by_state && status.last_completed <= seen.last_seq) {
      seen.done_seq = std::max(seen.done_seq, status.last_completed);
    }
  }
  for (size_t i = trace.entries.size(); i-- > 0;) {
    const Entry& entry = trace.entries[i];
    if (entry.p2p != 0 || entry.seq == 0) continue;
    Seen& seen = list.of(entry.group);
    if (entry.seq > seen.done_seq) seen.pending = static_cast<uint32_t>(i);
  }
  return {list.take(), any_p2p ? find_p2p_tail(trace, tables, by_state) : std::vector<uint32_t>()};
}

// The first call of each number of a group, set by whoever comes first; the others compare.
class Reference {
 public:
  Reference(uint32_t base, size_t length)
      : base_(base), length_(length), calls_(new std::atomic<uint64_t>[length]()) {}
  // False: another rank had another call there.
  bool agrees(uint32_t seq, uint64_t call) const {
    if (seq < base_ || seq - base_ >= length_) return true;
    uint64_t expected = kUnset;
    std::atomic<uint64_t>& slot = calls_[seq - base_];
    const uint64_t there = slot.load(std::memory_order_relaxed);
    if (there == call) return true;
    if (there != kUnset) return false;
    return slot.compare_exchange_strong(expected, call, std::memory_order_relaxed) ||
           expected == call;
  }

 private:
  uint32_t base_;
  size_t length_;
  std::unique_ptr<std::atomic<uint64_t>[]> calls_;
};

std::unique_ptr<Reference> make_reference(const std::vector<Member>& members) {
  uint32_t newest = 0;
  uint32_t most = 0;
  for (const Member& member : members) {
    newest = std::max(newest, member.seen.last_seq);
    most = std::max(most, member.seen.entries);
  }
  const uint32_t window = std::min<uint32_t>(newest, 2 * std::min(most, 1U << 30) + 1);
  return std::make_unique<Reference>(newest - window + (window > 0 ? 1 : 0), window);
}

void lower(std::atomic<uint32_t>& value, uint32_t candidate) {
  uint32_t there = value.load(std::memory_order_relaxed);
  while (candidate < there && !value.compare_exchange_weak(there, candidate)) {
  }
}

struct Running {
  uint32_t seq = 0;
  uint64_t hash = 0;
};

// Entries of one number (a coalesced collective) are one call.
void compare_rank(const RankTrace& trace, const std::vector<Seen>& seen, const Tables& tables,
                  const std::vector<std::unique_ptr<Reference>>& references,
                  std::vector<std::atomic<uint32_t>>& first_mismatch) {
  IdMap slots;
  for (size_t i = 0; i < seen.size(); ++i) {
    slots.insert(mix(1, seen[i].group), static_cast<uint32_t>(i));
  }
  std::vector<Running> running(seen.size());
  const auto close = [&](uint32_t slot) {
    const Seen& s = seen[slot];
    const Running& r = running[slot];
    if (r.seq == 0 || references[s.group] == nullptr) return;
    if (s.partial_first && r.seq == s.first_seq) return;
    if (!references[s.group]->agrees(r.seq, r.hash)) lower(first_mismatch[s.group], r.seq);
  };
  uint32_t group = kNoId;
  uint32_t slot = 0;
  for (const Entry& entry : trace.entries) {
    if (entry.p2p != 0 || entry.seq == 0 || entry.call == 0) continue;
    if (entry.group != group) {
      group = entry.group;
      slot = slots.find(mix(1, group));
    }
    const uint64_t hash = tables.call(entry.call).match_hash | 1;
    if (running[slot].seq == entry.seq) {
      running[slot].hash = mix(running[slot].hash, hash) | 1;
    } else {
      close(slot);
      running[slot] = {entry.seq, hash};
    }
  }
  for (uint32_t i = 0; i < seen.size(); ++i) close(i);
}

void infer_members(DumpSet& set, const Survey& survey) {
  for (uint32_t g = 0; g < set.tables.group_count(); ++g) {
    Group& group = set.tables.group(g);
    if (group.known) continue;
    for (const Member& member : survey.members[g]) {
      group.ranks.push_back(set.ranks[member.rank_index].rank);
    }
  }
}

}  // namespace

bool needs_all(const Call& call) {
  static constexpr std::array<std::string_view, 5> kOneSided = {"broadcast", "_broadcast_oop",
                                                                "scatter", "send", "coalesced"};
  return std::find(kOneSided.begin(), kOneSided.end(), call.op) == kOneSided.end();
}

Survey survey(DumpSet& set, unsigned threads) {
  const size_t groups = set.tables.group_count();
  std::vector<RankView> views(set.ranks.size());
  parallel_for(views.size(), threads,
               [&](size_t i) { views[i] = view_rank(set.ranks[i], set.tables); });

  Survey out;
  out.members.resize(groups);
  out.p2p_tails.resize(views.size());
  for (uint32_t i = 0; i < views.size(); ++i) {
    for (const Seen& seen : views[i].seen) out.members[seen.group].push_back({i, seen});
    out.p2p_tails[i] = std::move(views[i].p2p_tail);
  }

  std::vector<std::unique_ptr<Reference>> references(groups);
  std::vector<std::atomic<uint32_t>> first_mismatch(groups);
  for (size_t g = 0; g < groups; ++g) {
    first_mismatch[g] = kNoId;
    if (out.members[g].size() > 1) references[g] = make_reference(out.members[g]);
  }
  parallel_for(views.size(), threads, [&](size_t i) {
    compare_rank(set.ranks[i], views[i].seen, set.tables, references, first_mismatch);
  });
  out.first_mismatch.assign(first_mismatch.begin(), first_mismatch.end());
  infer_members(set, out);
  return out;
}

}  // namespace shanty::flight
