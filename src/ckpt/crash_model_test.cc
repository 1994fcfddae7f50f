#include <cstdio>

#include <gtest/gtest.h>

#include "ckpt/power_cuts.h"

namespace shanty::ckpt {
namespace {

// A sanitizer takes fifty times as long for a state.
#ifdef SHANTY_SANITIZED
constexpr uint64_t kHistories = 1;
constexpr uint64_t kLinkedHistories = 1;
constexpr size_t kFewestStates = 1;
constexpr size_t kFewestLinkedStates = 1;
#else
constexpr uint64_t kHistories = 26;
constexpr uint64_t kLinkedHistories = 4;
constexpr size_t kFewestStates = 100'000;
constexpr size_t kFewestLinkedStates = 5'000;
#endif

TEST(CrashModel, EveryStateOfThePowerCutsLoadsOneSaveNoOlderThanAcknowledged) {
  size_t states = 0;
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    const Plan plan{.seed = seed, .keep = 1 + seed % 3, .reopen_every = seed % 4};
    const Outcome outcome = run_history(plan, nullptr, true);
    ASSERT_EQ(outcome.violations, 0U) << "history " << seed << ", " << outcome.first_violation;
    states += outcome.states;
  }
  EXPECT_GE(states, kFewestStates);
  std::printf("%zu distinct states\n", states);
}

TEST(CrashModel, WhatIsLinkedIsAsSafeAsWhatIsWritten) {
  size_t states = 0;
  for (uint64_t seed = 1; seed <= kLinkedHistories; ++seed) {
    const Plan plan{.seed = seed, .keep = 1 + seed % 2, .links = true};
    const Outcome outcome = run_history(plan, nullptr, true);
    ASSERT_EQ(outcome.violations, 0U) << "history " << seed << ", " << outcome.first_violation;
    states += outcome.states;
  }
  EXPECT_GE(states, kFewestLinkedStates);
  std::printf("%zu distinct states\n", states);
}

}  // namespace
}  // namespace shanty::ckpt
