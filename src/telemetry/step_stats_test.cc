#include "telemetry/step_stats.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace shanty {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

StepRecord record(uint64_t step, int64_t end_ms, uint32_t step_us, float samples, float loss) {
  return {.step = step,
          .end_unix_ns = end_ms * kMs,
          .step_us = step_us,
          .data_us = step_us / 4,
          .loss = loss,
          .samples = samples};
}

TEST(StepStats, AveragesTheStepsOfTheWindow) {
  StepStats stats;
  RankTelemetry t;
  stats.add(std::vector{record(0, 1000, 500'000, 32, 9), record(1, 11'000, 100'000, 32, 3),
                        record(2, 11'500, 300'000, 32, kNan)});
  stats.fill(t, 12'000 * kMs);  // record 0 is older than 10 s
  EXPECT_TRUE(t.has_step);
  EXPECT_EQ(t.step, 2U);
  EXPECT_EQ(t.steps_done, 3U);
  EXPECT_DOUBLE_EQ(t.step_s, 0.2);
  EXPECT_DOUBLE_EQ(t.data_s, 0.05);
  EXPECT_DOUBLE_EQ(t.samples_per_s, 160);
  EXPECT_DOUBLE_EQ(t.loss, 3);
  EXPECT_EQ(t.last_step_unix_ns, 11'500 * kMs);
}

TEST(StepStats, KeepsTheLastStepHoweverOld) {
  StepStats stats;
  RankTelemetry t;
  stats.add(std::vector{record(5, 1000, 100'000, kNan, 1)});
  stats.fill(t, 1'000'000 * kMs);
  EXPECT_EQ(t.step, 5U);
  EXPECT_DOUBLE_EQ(t.step_s, 0.1);
  EXPECT_TRUE(std::isnan(t.samples_per_s));
}

TEST(StepStats, StepsThatAreOnlyCountedTellTheirLengthAndNothingElse) {
  StepStats stats;
  RankTelemetry t;
  StepRecord counted = record(1, 1100, 100'000, kNan, kNan);
  counted.flags = StepRecord::kCounted;
  counted.data_us = 0;
  stats.add(std::vector{record(0, 1000, 200'000, 32, 7), counted, counted, counted});
  stats.fill(t, 1200 * kMs);
  EXPECT_DOUBLE_EQ(t.step_s, 0.125);
  EXPECT_DOUBLE_EQ(t.data_s, 0.125 / 4);
  EXPECT_DOUBLE_EQ(t.samples_per_s, 32 / 0.125);
  EXPECT_DOUBLE_EQ(t.loss, 7);
}

TEST(StepStats, WithoutStepsNothingIsKnown) {
  StepStats stats;
  RankTelemetry t;
  stats.fill(t, 0);
  EXPECT_FALSE(t.has_step);
  EXPECT_TRUE(std::isnan(t.loss));
}

TEST(FillFromRing, TurnsMonotonicTimeIntoWallTimeAndDoubtsTheFuture) {
  RankTelemetry t;
  RingStatus status{.claim_pid = 1, .phase = 6, .phase_entered_monotonic_ns = 400};
  fill_from_ring(status, {1000}, 50'000, t);
  EXPECT_TRUE(t.hooked);
  EXPECT_EQ(t.phase, "collective");
  EXPECT_EQ(t.phase_since_unix_ns, 49'400);
  status.phase_entered_monotonic_ns = 2000;
  fill_from_ring(status, {1000}, 50'000, t);
  EXPECT_EQ(t.phase_since_unix_ns, 0);
}

TEST(FillFromRing, StepsWhoseRecordsAreNotWrittenYetAreDone) {
  RankTelemetry t{.has_step = true, .step = 7};
  fill_from_ring({.claim_pid = 1, .phase = 4, .phase_step = 15}, {1000}, 50'000, t);
  EXPECT_EQ(t.step, 14u);
  fill_from_ring({.claim_pid = 1, .phase = 4, .phase_step = 0}, {1000}, 50'000, t);
  EXPECT_EQ(t.step, 14u);  // nothing was said
  RankTelemetry none;
  fill_from_ring({.claim_pid = 1, .phase = 4, .phase_step = 1}, {1000}, 50'000, none);
  EXPECT_FALSE(none.has_step);  // the script may yet give the first one another number
  EXPECT_EQ(none.step, 0u);
}

TEST(FillFromRing, APhaseWithoutItsTimeBeganAfterTheLastStep) {
  RankTelemetry t{.last_step_unix_ns = 40'000};
  fill_from_ring({.claim_pid = 1, .phase = 4, .phase_entered_monotonic_ns = 0}, {1000}, 50'000, t);
  EXPECT_EQ(t.phase, "backward");
  EXPECT_EQ(t.phase_since_unix_ns, 40'000);
}

}  // namespace
}  // namespace shanty
