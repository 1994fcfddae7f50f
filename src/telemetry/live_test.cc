#include "telemetry/live.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace shanty {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Live, SurvivesTheWayThereAndBack) {
  LiveState state{.unix_ns = 5,
                  .state = "running",
                  .text = "t",
                  .generation = 2,
                  .restarts = 1,
                  .started_unix_ns = 3,
                  .nodes = 2,
                  .world_size = 4};
  RankTelemetry rank;
  rank.rank = 3;
  rank.alive = true;
  rank.has_step = true;
  rank.step = 1ULL << 60;
  rank.phase = "data";
  rank.loss = 2.5;
  rank.samples_per_s = kNan;
  rank.rss_bytes = 123;
  state.ranks = {rank};
  const auto back = decode_live(encode_live(state));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(encode_live(*back), encode_live(state));
  EXPECT_EQ(back->ranks[0].step, 1ULL << 60);
  EXPECT_EQ(back->ranks[0].loss, 2.5);
  EXPECT_TRUE(std::isnan(back->ranks[0].samples_per_s));
  EXPECT_EQ(decode_rank_telemetry(encode_rank_telemetry(rank))->phase, "data");
}

TEST(Live, GarbageIsAnErrorNotACrash) {
  for (const char* text : {"", "[]", "{", "{\"format\":2}", "null", "{\"format\":\"1\"}"}) {
    EXPECT_FALSE(decode_live(text).ok()) << text;
  }
  const auto odd = decode_live(R"({"format":1,"ranks":[1,null,{"rank":"x","step":-1}]})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->ranks.size(), 3U);
}

TEST(Summarize, TheSlowestRankDecidesAndSamplesAddUp) {
  std::vector<RankTelemetry> ranks(3);
  for (RankTelemetry& rank : ranks) rank.loss = rank.samples_per_s = kNan;
  ranks[0].has_step = true;
  ranks[0].step = 12;
  ranks[0].step_s = 0.1;
  ranks[0].samples_per_s = 100;
  ranks[1].has_step = true;
  ranks[1].step = 11;
  ranks[1].step_s = 0.3;
  ranks[1].samples_per_s = 50;
  ranks[1].loss = 7;
  const JobProgress progress = summarize(ranks);
  EXPECT_EQ(progress.step, 11U);
  EXPECT_DOUBLE_EQ(progress.samples_per_s, 150);
  EXPECT_DOUBLE_EQ(progress.step_s, 0.2);
  EXPECT_EQ(progress.loss, 7);
  EXPECT_FALSE(summarize({}).has_step);
}

}  // namespace
}  // namespace shanty
