#include <cstdio>

#include <gtest/gtest.h>

#include "ckpt/power_cuts.h"

namespace shanty::ckpt {
namespace {

TEST(CrashModel, EveryStateOfThePowerCutsLoadsOneSaveNoOlderThanAcknowledged) {
  size_t states = 0;
  const uint64_t seeds = 26;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Plan plan{.seed = seed, .keep = 1 + seed % 3, .reopen_every = seed % 4};
    const Outcome outcome = run_history(plan, nullptr, true);
    ASSERT_EQ(outcome.violations, 0U) << "history " << seed << ", " << outcome.first_violation;
    states += outcome.states;
  }
  RecordProperty("states", static_cast<int>(states));
  std::printf("%zu distinct states\n", states);
}

TEST(CrashModel, WhatIsLinkedIsAsSafeAsWhatIsWritten) {
  size_t states = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Plan plan{.seed = seed, .keep = 1 + seed % 2, .links = true};
    const Outcome outcome = run_history(plan, nullptr, true);
    ASSERT_EQ(outcome.violations, 0U) << "history " << seed << ", " << outcome.first_violation;
    states += outcome.states;
  }
  EXPECT_GT(states, 5'000U);
  std::printf("%zu distinct states\n", states);
}

}  // namespace
}  // namespace shanty::ckpt
