#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "doctor/case.h"

namespace shanty {

// What one rank says of the process group in which a collective timed out.
struct RankInGroup {
  const Record* timeout = nullptr;   // the watchdog's line, if it printed one
  const Record* counters = nullptr;  // last enqueued and completed
  int64_t sequence = -1;             // of the collective that timed out
  std::string op;
  int64_t numel = -1;
  int64_t enqueued = -2;  // -2: unknown; -1 is what torch prints before the first
  int64_t completed = -2;
};

// "Collective timeout" is a symptom; this is what tells its causes apart
// (facts: the counters of all ranks of one group, side by side).
struct TimeoutView {
  std::string group;
  std::map<int, RankInGroup> ranks;  // those that said something
  int64_t sequence = -1;             // the smallest that timed out: where it came apart
  std::string op;
  int64_t numel = -1;
  int64_t timeout_ms = -1;
  std::vector<int> late;      // enqueued less than the others, or silent: they did not join
  std::vector<int> silent;    // of these, who said nothing of a timeout
  std::vector<int> odd_op;    // another operation or sequence than the majority
  std::vector<int> odd_size;  // another size than the majority
  bool all_there = false;     // every expected rank timed out in the same collective
  bool first_collective = false;
  Records lines;  // the watchdog's, then counters
};

// Several ranks are silent, half as many as speak of the timeout or more, and nothing else is there
// of them either: the lines are an excerpt, and silence in it is no evidence.
bool is_excerpt(const Case& of, const TimeoutView& view);

// The groups in which collectives timed out, the one in which it began first. Of groups whose
// members wait for a rank that itself waits in another group, the other one comes first.
std::vector<TimeoutView> view_timeouts(const Case& of);

}  // namespace shanty
