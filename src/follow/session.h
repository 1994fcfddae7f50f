#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "follow/connect.h"
#include "follow/follower.h"
#include "follow/interrupt.h"
#include "follow/replacements.h"
#include "follow/watches.h"

namespace shanty::follow {

struct SessionOptions {
  bool json = false;   // JSON lines on stdout, nothing else
  bool quiet = false;  // only the ranks' output
  // Whether to show a line of the ranks, lines of one pod in their order; empty: all.
  std::function<bool(const std::string& pod, std::string_view line)> keep;
  // Of logs that are there already only so many last lines; 0 = all.
  uint64_t tail_lines = 0;
  // Of bare pods: makes the pod of that name anew, once it is gone.
  Replacements::Make replace;
  uint64_t max_replacements = 0;
};

struct SessionEnd {
  std::optional<JobEnd> job;  // nothing: left by a signal, the job goes on
  std::string problem;        // it could not be followed any more
  std::string run_dir;        // of node 0; "" = not known
  bool run_dir_stays = false;
};

// Follows a job until it has ended, or `interrupt` says to leave it: shows what the cluster does
// with it, then what the laptop's `run` shows. Blocks.
SessionEnd follow_job(const ClusterChoice& cluster, const FollowGoal& goal, const WatchGoal& watch,
                      const SessionOptions& options, const Interrupt& interrupt);

}  // namespace shanty::follow
