#include "doctor/timeouts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace shanty {
namespace {

constexpr int64_t kFirstCollectives = 2;

std::string group_of(const Record& record) {
  const std::string group(record.get("group"));
  return group.empty() || group == "0" || group.starts_with("0(") ? "0" : group;
}

int rank_of(const Record& record) {
  if (record.rank >= 0) return record.rank;
  return static_cast<int>(record.number("r"));
}

void take_timeout(RankInGroup& rank, const Record& record) {
  if (rank.timeout) return;
  rank.timeout = &record;
  rank.sequence = record.number("seq");
  rank.op = record.get("op");
  rank.numel = record.number("numel");
}

void take_counters(RankInGroup& rank, const Record& record) {
  if (rank.counters) return;
  rank.counters = &record;
  rank.enqueued = record.number("enqueued", -2);
  rank.completed = record.number("completed", -2);
  if (rank.sequence < 0) rank.sequence = record.number("at");
}

// The value that most ranks have; ties go to the larger one.
template <typename T>
T majority(const std::map<T, std::vector<int>>& votes) {
  const auto most = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  return most->first;
}

template <typename T>
std::vector<int> minority(const std::map<T, std::vector<int>>& votes) {
  if (votes.size() < 2) return {};
  const T most = majority(votes);
  std::vector<int> out;
  for (const auto& [value, ranks] : votes) {
    if (value != most) out.insert(out.end(), ranks.begin(), ranks.end());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void judge(TimeoutView& view, const std::set<int>& expected) {
  std::map<std::pair<int64_t, std::string>, std::vector<int>> ops;
  std::map<int64_t, std::vector<int>> sizes;
  for (const auto& [rank, state] : view.ranks) {
    if (!state.timeout) continue;
    ops[{state.sequence, state.op}].push_back(rank);
    if (view.sequence < 0 || state.sequence < view.sequence) view.sequence = state.sequence;
    view.timeout_ms = std::max(view.timeout_ms, state.timeout->number("timeout"));
  }
  if (!ops.empty()) {
    const auto common = majority(ops);
    view.op = common.second;
    view.odd_op = minority(ops);
    for (const auto& [rank, state] : view.ranks) {
      if (state.timeout && state.op == common.second && state.sequence == common.first) {
        if (state.numel >= 0) sizes[state.numel].push_back(rank);
      }
    }
    if (!sizes.empty()) view.numel = majority(sizes);
    view.odd_size = minority(sizes);
  }
  for (const int rank : expected) {
    const auto at = view.ranks.find(rank);
    const bool silent = at == view.ranks.end() || (!at->second.timeout && !at->second.counters);
    const bool behind = !silent && !at->second.timeout && at->second.enqueued >= -1 &&
                        at->second.enqueued < view.sequence;
    if (silent) view.silent.push_back(rank);
    if (silent || behind) view.late.push_back(rank);
  }
  // Where everybody is missing but one, the one is odd, not the others.
  if (view.late.size() * 2 > expected.size() && view.ranks.size() < 2) view.late.clear();
  view.all_there =
      view.late.empty() && view.odd_op.empty() && view.odd_size.empty() && view.ranks.size() >= 2;
  view.first_collective = view.sequence >= 0 && view.sequence <= kFirstCollectives;
}

}  // namespace

bool is_excerpt(const Case& of, const TimeoutView& view) {
  size_t unheard = 0;
  for (const int rank : view.silent) unheard += of.ranks().contains(rank) ? 0 : 1;
  const size_t spoke = view.ranks.size();
  if (spoke == 1 && unheard == view.silent.size() && unheard > 0) return true;
  return unheard > 0 && view.silent.size() > 1 && 2 * view.silent.size() >= spoke;
}

std::vector<TimeoutView> view_timeouts(const Case& of) {
  std::map<std::string, TimeoutView> groups;
  for (const Record* record : of.all({"timeout", "async_exception"})) {
    if (record->get("op").empty()) continue;
    const int rank = rank_of(*record);
    if (rank < 0) continue;
    TimeoutView& view = groups[group_of(*record)];
    view.group = group_of(*record);
    take_timeout(view.ranks[rank], *record);
    view.lines.push_back(record);
  }
  if (groups.empty()) return {};
  for (const Record* record : of.all("counters")) {
    const int rank = rank_of(*record);
    const auto group = groups.find(group_of(*record));
    if (rank < 0 || group == groups.end()) continue;
    take_counters(group->second.ranks[rank], *record);
    group->second.lines.push_back(record);
  }

  std::set<int> world = of.ranks();
  for (int rank = 0; rank < of.world_size(); ++rank) world.insert(rank);
  std::vector<TimeoutView> out;
  for (auto& [name, view] : groups) {
    // Members of other groups than the default one are those that speak of it.
    std::set<int> members = world;
    if (name != "0") {
      members.clear();
      for (const auto& [rank, state] : view.ranks) members.insert(rank);
    }
    judge(view, members);
    out.push_back(std::move(view));
  }
  const auto began = [](const TimeoutView& view) { return view.lines.front()->unix_ns; };
  std::stable_sort(out.begin(), out.end(),
                   [&](const TimeoutView& a, const TimeoutView& b) { return began(a) < began(b); });
  // A rank that is late here and waits there is no culprit here.
  std::set<int> waiting_elsewhere;
  for (const TimeoutView& view : out) {
    for (const auto& [rank, state] : view.ranks) {
      if (state.timeout) waiting_elsewhere.insert(rank);
    }
  }
  std::stable_partition(out.begin(), out.end(), [&](const TimeoutView& view) {
    return view.late.empty() || std::any_of(view.late.begin(), view.late.end(), [&](int rank) {
             return !waiting_elsewhere.contains(rank);
           });
  });
  return out;
}

}  // namespace shanty
