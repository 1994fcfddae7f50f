#include "coordinator/live_state_name.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

using gang::JobPhase;

TEST(LiveStateName, FormingIsWaitingOnlyBeforeTheFirstGeneration) {
  gang::CoordinatorState state{.phase = JobPhase::kForming};
  EXPECT_STREQ(live_state_name(state), "waiting");
  state.max_generation = 1;
  EXPECT_STREQ(live_state_name(state), "restarting");
  state.phase = JobPhase::kRunning;
  EXPECT_STREQ(live_state_name(state), "running");
  state.phase = JobPhase::kRecovering;
  EXPECT_STREQ(live_state_name(state), "recovering");
}

TEST(LiveStateName, RanksThatAreStoppedComeBackUnlessTheJobIsToStop) {
  gang::CoordinatorState state{.phase = JobPhase::kStopping, .max_generation = 1};
  EXPECT_STREQ(live_state_name(state), "restarting");
  state.stop_reason = "stopped by SIGTERM";
  EXPECT_STREQ(live_state_name(state), "stopping");
}

TEST(LiveStateName, TheEndIsNamedByItsOutcome) {
  for (const auto phase : {JobPhase::kEnding, JobPhase::kFinished}) {
    gang::CoordinatorState state{.phase = phase, .outcome = gang::Outcome::kSucceeded};
    EXPECT_STREQ(live_state_name(state), "succeeded");
    state.outcome = gang::Outcome::kFailed;
    EXPECT_STREQ(live_state_name(state), "failed");
    state.outcome = gang::Outcome::kStopped;
    EXPECT_STREQ(live_state_name(state), "stopped");
  }
}

}  // namespace
}  // namespace shanty
