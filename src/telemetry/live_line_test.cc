#include "telemetry/live_line.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace shanty {
namespace {

LiveState state_of(int ranks) {
  LiveState state{.unix_ns = 1'700'000'000'000'000'000,
                  .state = "running",
                  .text = "",
                  .generation = 2,
                  .restarts = 1,
                  .ranks = {},
                  .started_unix_ns = 1'699'999'999'000'000'000,
                  .nodes = 2,
                  .world_size = ranks};
  for (int i = 0; i < ranks; ++i) {
    RankTelemetry rank;
    rank.rank = i;
    rank.alive = true;
    rank.hooked = true;
    rank.has_step = true;
    rank.step = static_cast<uint64_t>(1000 + i);
    rank.phase = "back\nward";
    rank.phase_since_unix_ns = state.unix_ns;
    rank.step_s = 0.0812345;
    rank.loss = std::numeric_limits<double>::quiet_NaN();
    rank.rss_bytes = uint64_t{7} << 30;
    state.ranks.push_back(rank);
  }
  return state;
}

TEST(LiveLine, SurvivesTheWayThereAndBackOnOneLine) {
  const std::string line = encode_live_line(state_of(2));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = decode_live_line(line);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->state, "running");
  EXPECT_EQ(back->world_size, 2);
  EXPECT_EQ(back->started_unix_ns, 1'699'999'999'000'000'000);
  ASSERT_EQ(back->ranks.size(), 2U);
  const RankTelemetry& rank = back->ranks[1];
  EXPECT_EQ(rank.rank, 1);
  EXPECT_TRUE(rank.alive && rank.hooked && rank.has_step);
  EXPECT_EQ(rank.step, 1001U);
  EXPECT_EQ(rank.phase, "back\nward");
  EXPECT_DOUBLE_EQ(rank.step_s, 0.08123);
  EXPECT_TRUE(std::isnan(rank.loss));
  EXPECT_EQ(rank.rss_bytes, uint64_t{7} << 30);
  EXPECT_EQ(rank.phase_since_unix_ns, 1'700'000'000'000'000'000);
}

TEST(LiveLine, OfALargeJobHasThoseThatHoldItUp) {
  LiveState state = state_of(1000);
  state.ranks[777].alive = false;
  state.ranks[500].step = 3;
  const std::string line = encode_live_line(state);
  EXPECT_LT(line.size(), size_t{32} * 1024);
  EXPECT_GT(wait_after_live_line(line.size()), std::chrono::seconds(30));
  EXPECT_EQ(wait_after_live_line(4 * line.size()), kLongestLiveLineWait);
  EXPECT_LT(wait_after_live_line(encode_live_line(state_of(8)).size()), std::chrono::seconds(15));
  const auto back = decode_live_line(line);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->world_size, 1000);
  ASSERT_EQ(back->ranks.size(), kMaxLineRanks);
  EXPECT_EQ(back->ranks[0].rank, 0);
  EXPECT_EQ(back->ranks[62].rank, 500);
  EXPECT_EQ(back->ranks[63].rank, 777);
}

TEST(LiveLine, OfAnotherVersionGivesWhatIsKnown) {
  const auto back = decode_live_line(
      R"({"fields":["rank","moon","step",7],"ranks":[[3,"full",12],[4],"x"],"world_size":9})");
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->ranks.size(), 2U);
  EXPECT_EQ(back->ranks[0].step, 12U);
  EXPECT_EQ(back->ranks[1].rank, 4);
}

TEST(LiveLine, RefusesWhatIsNone) {
  for (const char* text : {"", "[]", "{", "{}", R"({"fields":[],"ranks":3})"}) {
    EXPECT_FALSE(decode_live_line(text).ok()) << text;
  }
  EXPECT_FALSE(decode_live_line(std::string(kMaxLiveLineBytes + 1, ' ')).ok());
}

}  // namespace
}  // namespace shanty
