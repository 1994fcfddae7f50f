#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "follow/connect.h"
#include "follow/follower.h"
#include "follow/interrupt.h"
#include "follow/watches.h"

namespace shanty::follow {

struct SessionOptions {
  bool json = false;   // JSON lines on stdout, nothing else
  bool quiet = false;  // only the ranks' output
  // Whether to show a line of the ranks, lines of one pod in their order; empty: all.
  std::function<bool(const std::string& pod, std::string_view line)> keep;
  // Of bare pods, which nobody else replaces: makes the pod of that name anew, once it is gone. Its
  // error ends the job: it was stopped or removed, or the cluster takes no more pods.
  std::function<Status(const std::string& pod)> replace;
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
