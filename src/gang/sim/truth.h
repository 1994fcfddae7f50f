#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gang/messages.h"

namespace shanty::gang::sim {

enum class RankFate : uint8_t { kUnknown, kFinished, kFailed, kStopped };

// What really happened to one generation.
struct WorldTruth {
  World world;  // as formed
  int lineage = 0;
  std::vector<uint64_t> members;  // the incarnations it was formed of
  std::vector<int> host_of_node;  // -1 = not started
  std::vector<uint64_t> life_of_node;
  std::vector<RankFate> fate;  // by rank
  std::vector<bool> taken;     // ranks that some node started
  int nodes_started = 0;
  bool failed = false;     // a rank ended on its own with a failure
  bool disturbed = false;  // something happened that may cost this generation
  int disturbances = 0;
  int first_failed_rank = -1;  // of injected failures

  bool started() const { return nodes_started == world.node_count; }
};

// What really happened, as no process of the job can know it.
struct Truth {
  std::vector<WorldTruth> worlds;  // in the order they were formed
  // Counts up when all memory of earlier generations was lost with every disk and agent that had
  // it; a lineage's generations are numbered anew.
  int lineage = 0;
  int restarts = 0;  // of this lineage that count for the budget
  int free_restarts = 0;
  int coordinator_deaths = 0;
  Generation last_restarted = 0;
  std::map<std::string, int> signatures;
  std::vector<int64_t> restart_unix_ns;  // of this coordinator life
  bool stop_requested = false;
  bool anything_stuck = false;
  int64_t calm_since_ns = 0;
};

}  // namespace shanty::gang::sim
