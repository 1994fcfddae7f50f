#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "run/events.h"
#include "run/run_dir.h"
#include "telemetry/live.h"
#include "telemetry/node_sample.h"
#include "telemetry/step_record.h"

namespace shanty {

// The steps that one rank recorded in one generation.
struct RankSeries {
  int rank = 0;
  std::string file;
  std::vector<StepRecord> records;  // in order
};

struct GenerationSteps {
  uint64_t generation = 0;
  std::vector<RankSeries> ranks;  // by rank; those with records only
};

// What is told of a node at one time: versions.jsonl.
struct NodeVersions {
  int node_rank = 0;
  std::map<std::string, std::string> values;  // "torch": "2.15.0"
};

// A run directory, read once.
struct RunFacts {
  std::string path;
  RunInfo info;
  bool running = false;
  bool has_live = false;
  LiveState live;
  std::vector<Event> events;  // by time
  std::vector<GenerationSteps> steps;
  std::vector<NodeVersions> versions;
  std::map<int, std::vector<NodeSample>> node_samples;  // by node rank
  std::vector<std::string> notes;
};

// Of longer series every n-th step is kept, the same ones for each rank.
inline constexpr size_t kMaxSeriesRecords = 20'000;
inline constexpr size_t kMaxSeriesRanks = 4096;

RunFacts read_run(const RunDir& run);

}  // namespace shanty
