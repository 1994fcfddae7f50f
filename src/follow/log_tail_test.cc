#include "follow/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::follow {
namespace {

using ::testing::ElementsAre;

class LogTailTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  LogTail tail_{[this](std::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(LogTailTest, HandsOutWholeLinesWithoutTheirTimes) {
  tail_.feed("2026-11-30T04:31:51.1234567");
  tail_.feed("89Z one\n2026-11-30T04:31:52.000000000Z tw");
  EXPECT_THAT(lines_, ElementsAre("one"));
  tail_.finish();
  EXPECT_THAT(lines_, ElementsAre("one", "tw"));
}

TEST_F(LogTailTest, TakesTheTimesOfNodesInOtherZones) {
  tail_.feed("2026-11-30T12:31:51.123456789+08:00 one\n2026-11-30T00:01:52.5-03:30 two\n");
  tail_.feed("2026-11-30T12:31:51.5+8 three\n");
  EXPECT_THAT(lines_, ElementsAre("one", "two", "2026-11-30T12:31:51.5+8 three"));
}

TEST_F(LogTailTest, AfterABreakGoesOnBehindTheLastTime) {
  tail_.feed("2026-11-30T04:31:51.1Z one\n2026-11-30T04:31:52.1Z two\n2026-11-30T04:31:53.1Z thr");
  tail_.begin_again();
  tail_.feed("2026-11-30T04:31:52.1Z two\n2026-11-30T04:31:53.1Z three\n");
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
}

TEST_F(LogTailTest, LosesNoLineOfAnInstantThatABreakCutInTwo) {
  tail_.feed(
      "2026-11-30T04:31:51.1Z one\n2026-11-30T04:31:52.1Z two\n2026-11-30T04:31:52.1Z three\n");
  for (int breaks = 0; breaks < 2; ++breaks) {
    tail_.begin_again();
    tail_.feed("2026-11-30T04:31:51.1Z one\n2026-11-30T04:31:52.1Z two\n");
  }
  tail_.begin_again();
  tail_.feed(
      "2026-11-30T04:31:51.1Z one\n2026-11-30T04:31:52.1Z two\n2026-11-30T04:31:52.1Z three\n"
      "2026-11-30T04:31:52.1Z four\n2026-11-30T04:31:52.1Z five\n");
  tail_.begin_again();
  tail_.feed("2026-11-30T04:31:52.1Z five\n2026-11-30T04:31:53.1Z six\n");
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three", "four", "five", "six"));
}

TEST_F(LogTailTest, CountsWhereThereAreNoTimes) {
  tail_.feed("one\ntwo\nthr");
  tail_.begin_again();
  tail_.feed("one\ntwo\nthree\n");
  tail_.begin_again();
  tail_.feed("one\ntwo\nthree\nfour\n");
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three", "four"));
}

TEST_F(LogTailTest, CutsLinesThatAreTooLong) {
  tail_.feed(std::string(LogTail::kMaxLineBytes + 5, 'x') + "\n");
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0].size(), LogTail::kMaxLineBytes);
  EXPECT_EQ(lines_[1], "xxxxx");
}

}  // namespace
}  // namespace shanty::follow
