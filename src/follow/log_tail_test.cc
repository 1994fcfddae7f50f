#include "follow/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "follow/agent_output.h"

namespace shanty::follow {
namespace {

using ::testing::ElementsAre;
using From = OutputLine::From;

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

TEST_F(LogTailTest, AfterABreakGoesOnBehindTheLastTime) {
  tail_.feed("2026-11-30T04:31:51.1Z one\n2026-11-30T04:31:52.1Z two\n2026-11-30T04:31:53.1Z thr");
  tail_.begin_again();
  tail_.feed("2026-11-30T04:31:52.1Z two\n2026-11-30T04:31:53.1Z three\n");
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
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

TEST(OutputLine, TellsTheAgentFromTheRanks) {
  EXPECT_EQ(read_output_line("shanty 04:31:51  generation 1: 2 ranks on 2 nodes").from,
            From::kAgent);
  EXPECT_EQ(read_output_line("shanty 04:31:51  generation 1: 2 ranks on 2 nodes").text,
            "generation 1: 2 ranks on 2 nodes");
  EXPECT_EQ(read_output_line("shanty 04:31:51  step 8/50 16% | 81 ms/step").from, From::kProgress);
  EXPECT_EQ(read_output_line("shanty 04:31:51  waiting: node 1 of 2 is missing").from,
            From::kProgress);
  for (const char* line : {"step 8/50", "shanty", "shanty at 04:31", "shanty 04:31:51 x", ""}) {
    EXPECT_EQ(read_output_line(line).from, From::kRank) << line;
  }
}

}  // namespace
}  // namespace shanty::follow
