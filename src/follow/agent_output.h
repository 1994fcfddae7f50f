#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shanty::follow {

// What a line of a pod's log is. The log holds what the agent prints when it is not on a terminal:
// the ranks' output, and between it sentences of its own.
struct OutputLine {
  enum class From {
    kRank,
    kAgent,     // "shanty 04:31:51  generation 1: 2 ranks on 2 nodes"
    kProgress,  // "shanty 04:31:51  step 812/5000 16% loss 2.31 | ...", "... waiting: ..."
    kRanks,     // "shanty 04:31:51  ranks {...}", see telemetry/live_line.h
    kRay,       // of the `ray start` that holds a pod of a RayJob open
  };
  From from = From::kRank;
  // Of the agent: without the time (and "ranks"). Of Ray: what it says when something is wrong,
  // else nothing. Of a rank: the line.
  std::string_view text;
};

OutputLine read_output_line(std::string_view line);

// The ranks that printed a line together, as `[rank 0-3] ` or `[3 ranks: 0,2,7] ` before it says;
// none: it says none.
std::vector<int> ranks_of_line(std::string_view line);

}  // namespace shanty::follow
