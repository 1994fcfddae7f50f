#include "doctor/run/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1'795'971'367 * kSecond;

// Four ranks that wait in backward of step 100, `still_s` after the last step; steps take 1 s.
HangView waiting(double still_s) {
  HangView view{.now_unix_ns = kNow, .usual_step_s = 1, .source = "live.json"};
  const int64_t since = kNow - static_cast<int64_t>(still_s * 1e9);
  for (int rank = 0; rank < 4; ++rank) {
    view.ranks.push_back({.rank = rank,
                          .node = "node-1",
                          .pid = 100 + rank,
                          .has_step = true,
                          .step = 100,
                          .phase = "backward",
                          .phase_since_unix_ns = since,
                          .last_step_unix_ns = since,
                          .process_state = 'S'});
  }
  return view;
}

TEST(Hang, AJobThatMakesStepsIsNone) {
  const HangVerdict verdict = judge_hang(waiting(0.5));
  EXPECT_EQ(verdict.motion, Motion::kMoving);
  EXPECT_THAT(verdict.findings, IsEmpty());
}

TEST(Hang, IsDecidedWithinTwoStepsAndTenSeconds) {
  EXPECT_EQ(judge_hang(waiting(5)).motion, Motion::kTooEarly);
  const HangVerdict verdict = judge_hang(waiting(10.1));
  EXPECT_EQ(verdict.motion, Motion::kHung);
  EXPECT_LE(verdict.limit_s, 2 * 1 + 10);
}

TEST(Hang, NamesTheRankThatIsElsewhere) {
  HangView view = waiting(20);
  view.ranks[2].phase = "data";
  const HangVerdict verdict = judge_hang(view);
  ASSERT_EQ(verdict.findings.size(), 1U);
  const Finding& found = verdict.findings.front();
  EXPECT_EQ(found.code, "HANG102");
  EXPECT_THAT(found.subject.ranks, ElementsAre(2));
  EXPECT_THAT(found.subject.nodes, ElementsAre("node-1"));
  EXPECT_THAT(found.message, HasSubstr("rank 2 never arrived: it is in data"));
  EXPECT_THAT(found.evidence.front().text, HasSubstr("rank 2: in data"));
}

TEST(Hang, AStoppedProcessIsNamedAtOnce) {
  HangView view = waiting(1);
  view.ranks[1].process_state = 'T';
  const HangVerdict verdict = judge_hang(view);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings.front().code, "HANG104");
  EXPECT_THAT(verdict.findings.front().subject.ranks, ElementsAre(1));
  EXPECT_THAT(verdict.findings.front().fix.front(), HasSubstr("kill -CONT 101"));
}

TEST(Hang, ARankThatComputesWhileTheOthersSleepIsTheSuspect) {
  HangView view = waiting(20);
  view.ranks[3].cpu_cores = 1;
  const HangVerdict verdict = judge_hang(view);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_THAT(verdict.findings.front().subject.ranks, ElementsAre(3));
  EXPECT_LT(verdict.findings.front().confidence, 0.8);
}

TEST(Hang, ARankStillInForwardIsEarlierThanTheOthers) {
  HangView view = waiting(20);
  view.ranks[0].phase = "forward";
  EXPECT_THAT(judge_hang(view).findings.front().subject.ranks, ElementsAre(0));
}

TEST(Hang, EqualRanksAreSaidToBeUndecided) {
  const HangVerdict verdict = judge_hang(waiting(20));
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings.front().code, "HANG199");
  EXPECT_LE(verdict.findings.front().confidence, 0.5);
  EXPECT_THAT(verdict.findings.front().ruled_out.back(), HasSubstr("cannot tell"));
}

TEST(Hang, RanksThatAllWaitForDataAreNoMissingRank) {
  HangView view = waiting(20);
  for (RankNow& rank : view.ranks) rank.phase = "data";
  EXPECT_EQ(judge_hang(view).findings.front().code, "HANG111");
}

TEST(Hang, BeforeTheFirstStepNothingIsSaid) {
  HangView view = waiting(300);
  for (RankNow& rank : view.ranks) rank.has_step = false;
  const HangVerdict verdict = judge_hang(view);
  EXPECT_EQ(verdict.motion, Motion::kNotStarted);
  EXPECT_THAT(verdict.findings, IsEmpty());
}

TEST(Hang, SlowStepsHaveTheirTime) {
  HangView view = waiting(50);
  view.usual_step_s = 30;
  EXPECT_EQ(judge_hang(view).motion, Motion::kMoving);
}

}  // namespace
}  // namespace shanty
