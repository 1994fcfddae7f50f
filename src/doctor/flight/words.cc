#include "doctor/flight/words.h"

#include <algorithm>

#include <fmt/format.h>

#include "doctor/flight/flight.h"

namespace shanty::flight {
namespace {

std::string at_place(const DumpSet& set, const Entry& entry) {
  const std::string& place = set.tables.place(entry.stack);
  return place.empty() ? "" : " at " + place;
}

std::string p2p_text(const DumpSet& set, const Entry& entry, const Call& call) {
  const Group& group = set.tables.group(entry.group);
  const auto global = [&](int rank) {
    if (rank < 0) return std::string("any rank");
    const auto at = static_cast<size_t>(rank);
    return fmt::format("rank {}", at < group.ranks.size() ? group.ranks[at] : rank);
  };
  return call.op == "send" ? "send to " + global(call.target) : "recv from " + global(call.source);
}

}  // namespace

std::string ranks_text(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t shown = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (shown > 0) text += ", ";
    if (shown == kMaxNamedRanks) return text + fmt::format("... ({} in all)", ranks.size());
    text +=
        end - i > 2 ? fmt::format("{}-{}", ranks[i], ranks[end - 1]) : fmt::format("{}", ranks[i]);
    i = end - i > 2 ? end : i + 1;
    ++shown;
  }
  return text;
}

std::string call_text(const DumpSet& set, const Entry& entry) {
  const Call& call = set.tables.call(entry.call);
  const bool p2p = call.op == "send" || call.op == "recv";
  return fmt::format("{} #{} ({})", p2p ? p2p_text(set, entry, call) : call.op, entry.seq,
                     call.shapes);
}

std::string state_text(const RankTrace& trace, const Entry& entry) {
  if (entry.state == kCompleted) return "completed";
  const bool tells = std::any_of(trace.entries.begin(), trace.entries.end(),
                                 [](const Entry& e) { return e.state != kScheduled; });
  if (entry.retired != 0) return tells ? "timed out" : "retired";
  return entry.state == kStarted ? "started" : "scheduled";
}

Evidence entry_evidence(const DumpSet& set, uint32_t rank_index, uint32_t entry) {
  const RankTrace& trace = set.ranks[rank_index];
  const Entry& e = trace.entries[entry];
  return {trace.file, entry + uint64_t{1},
          fmt::format("rank {}: {} of {}, {}{}", trace.rank, call_text(set, e),
                      set.tables.group(e.group).title(), state_text(trace, e), at_place(set, e))};
}

Evidence last_evidence(const DumpSet& set, uint32_t rank_index) {
  const RankTrace& trace = set.ranks[rank_index];
  if (trace.entries.empty()) {
    return {trace.file, 0, fmt::format("rank {}: no collective at all", trace.rank)};
  }
  return entry_evidence(set, rank_index, static_cast<uint32_t>(trace.entries.size() - 1));
}

std::string where_it_is(const DumpSet& set, uint32_t rank_index) {
  const RankTrace& trace = set.ranks[rank_index];
  if (trace.entries.empty()) return "it has called no collective yet";
  const Entry& last = trace.entries.back();
  const Call& call = set.tables.call(last.call);
  return fmt::format("the last it called was {} #{} of {}{} ({})", call.op, last.seq,
                     set.tables.group(last.group).title(), at_place(set, last),
                     state_text(trace, last));
}

}  // namespace shanty::flight
