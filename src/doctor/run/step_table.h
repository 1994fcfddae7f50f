#pragma once

#include <cstdint>
#include <vector>

#include "doctor/run/run_facts.h"

namespace shanty {

// One step of one rank in seconds.
struct StepTimes {
  double step = 0;
  double data = 0;
  double forward = 0;
  double sync = 0;  // backward and collectives: what holds the waiting for other ranks
  double backward = 0;
  double collective = 0;
  double optimizer = 0;
  double checkpoint = 0;
  double other = 0;
};

// The steps that every rank timed, without the first ones: rows[i][rank index].
struct StepTable {
  std::vector<int> ranks;
  std::vector<uint64_t> steps;
  std::vector<int64_t> end_unix_ns;
  std::vector<std::vector<StepTimes>> rows;
};
inline constexpr size_t kWarmUpSteps = 5;  // left out: compilation, buckets, first batches

StepTable step_table(const GenerationSteps& steps);

}  // namespace shanty
