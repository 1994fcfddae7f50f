#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gang/messages.h"

namespace shanty::gang {

// Which of a generation's failures caused the others, and whether the job may go on after it.
// Pure functions of what was collected while the generation ended.

// One failure that was seen in a generation: a worker's end, or a node that is no more.
struct Candidate {
  std::optional<WorkerExit> exit;  // nullopt = the whole node
  int node_rank = -1;
  std::string node;
  std::string node_reason;  // "node lost: no word for 3 s"; only without `exit`
  bool node_left = false;   // it said that it leaves
  // When it began, by the coordinator's clock: its arrival less what the worker's own clock says
  // passed between its first error and its end.
  int64_t unix_ns = 0;
};

// Failures this close to the earliest are taken as one event; their kind decides among them. Words
// about a peer's death are no cause where any other is known.
inline constexpr int64_t kSameEventNs = 1'000'000'000;

// The cause among `candidates`; requested ends are nobody's fault. nullopt when none remains.
std::optional<Failure> choose_root_cause(std::span<const Candidate> candidates,
                                         Generation generation);

struct RestartRules {
  int max_restarts = 0;
  Duration restart_window{};  // zero = the whole job
  bool restart_on_exit = true;
};

struct Decision {
  bool restart = false;
  std::string reason;  // why not, or what is restarted after
};

// `before`: the failures before this one. `restarts_before`: all restarts of the job, also those
// `before` no longer holds.
Decision decide_restart(const RestartRules& rules, std::span<const Failure> before,
                        int restarts_before, const Failure& failure, int64_t now_unix_ns);

}  // namespace shanty::gang
