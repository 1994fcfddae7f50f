#include "doctor/stall_lists.h"

#include <algorithm>

#include "text/words.h"

namespace shanty {
namespace {

constexpr uint64_t kStallListLines = 4096;

}  // namespace

Records stall_lines(const Case& of) {
  Records lines = of.all({"stalled", "stall_warning", "stall_list", "stall_ready"});
  if (lines.empty()) return lines;
  const Record& last = *lines.back();
  for (const Record* step : of.all({"step", "loss_line"})) {
    if (step->file == last.file && step->line > last.line) return {};
  }
  return lines;
}

std::set<int> missing_of_stall(const Case& of, Records& lines) {
  std::set<int> missing;
  for (const Record* record : of.all("stalled")) {
    for (const int rank : numbers_in(record->get("ranks"), kMaxNamedRanks)) missing.insert(rank);
  }
  for (const Record* headline : of.all("stall_list")) {
    for (const Record* record : of.all("stall_rank")) {
      const bool below = record->file == headline->file && record->line > headline->line &&
                         record->line - headline->line <= kStallListLines;
      if (!below) continue;
      const auto named = numbers_in(record->get("ranks"), 1);
      if (!named.empty() || record->rank >= 0) {
        missing.insert(named.empty() ? record->rank : named.front());
        lines.push_back(record);
      }
    }
  }
  std::set<int> ready;
  for (const Record* record : of.all("stall_ready")) {
    for (const std::string_view list : lists_after(record->text, "[ready ranks:")) {
      for (const int rank : numbers_in(list, kMaxNamedRanks)) ready.insert(rank);
    }
  }
  if (!ready.empty()) {
    for (int rank = 0; rank < std::max(of.world_size(), *ready.rbegin()); ++rank) {
      if (!ready.contains(rank)) missing.insert(rank);
    }
  }
  return missing;
}

}  // namespace shanty
