#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causes/finding.h"
#include "doctor/run/run_facts.h"

namespace shanty {

// Where the time of a step goes, as fractions that add up to one.
struct Shares {
  double data = 0;
  double compute =
      0;  // forward, backward, optimizer, with what of communication cannot be split off
  double waiting = 0;     // for the slowest rank, inside backward or a collective
  double collective = 0;  // called by the script, without that waiting
  double checkpoint = 0;
  double other = 0;
};

struct RankShares {
  int rank = 0;
  Shares shares;
  double step_s = 0;  // mean
  size_t steps = 0;   // that were timed
};

// Fewer timed steps than these say nothing.
inline constexpr size_t kMinTimedSteps = 20;

// Of one generation. Empty where nothing was timed.
std::vector<RankShares> shares_of(const GenerationSteps& steps);

// What is slow in the generation with the most steps, and where the time goes. What there is too
// little of to tell is said, not guessed.
std::vector<Finding> diagnose_slow(const RunFacts& run);

// How the throughput of `large` compares to that of `small`, rank for rank.
std::vector<Finding> compare_scaling(const RunFacts& small, const RunFacts& large);

}  // namespace shanty
