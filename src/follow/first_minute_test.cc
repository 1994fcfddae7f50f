#include "follow/first_minute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::follow {
namespace {

using std::chrono_literals::operator""s;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(FirstMinute, FindsTheNetworkThatNcclTook) {
  FirstMinute minute(16);
  EXPECT_EQ(minute.on_agent_line("generation 1: 16 ranks on 2 nodes", {}).size(), 1U);
  EXPECT_THAT(minute.on_rank_line("[rank 3] n7:12:34 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB "
                                  "[1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"),
              IsEmpty());
  EXPECT_THAT(minute.on_rank_line("[rank 3] n7:12:34 [3] NCCL INFO Using network IB"),
              ElementsAre(StartsWith("network: NCCL uses IB: [0]mlx5_0:1/IB")));
  EXPECT_TRUE(minute.is_done());
  EXPECT_THAT(minute.on_rank_line("[rank 4] n7:12:35 [4] NCCL INFO Using network IB"), IsEmpty());
  EXPECT_THAT(minute.on_rank_line("[rank 9] n8:12:35 [1] NCCL INFO Using network Socket"),
              ElementsAre(HasSubstr("NCCL disagrees")));
}

TEST(FirstMinute, SaysThatSocketsAreSlow) {
  FirstMinute minute(16);
  minute.on_rank_line("n7:12:34 [3] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>");
  EXPECT_THAT(minute.on_rank_line("n7:12:34 [3] NCCL INFO Using network Socket\r"),
              ElementsAre(HasSubstr("uses Socket, plain TCP: [0]eth0:10.0.0.1<0>; where")));
}

TEST(FirstMinute, SaysWhenNcclKeepsSilent) {
  FirstMinute minute(16);
  EXPECT_THAT(minute.on_tick(TimePoint() + 100s), IsEmpty());
  minute.on_agent_line("generation 1: 16 ranks on 2 nodes", TimePoint() + 100s);
  EXPECT_THAT(minute.on_tick(TimePoint() + 159s), IsEmpty());
  EXPECT_THAT(minute.on_tick(TimePoint() + 160s), ElementsAre(HasSubstr("NCCL has not said")));
  EXPECT_THAT(minute.on_tick(TimePoint() + 300s), IsEmpty());
}

TEST(FirstMinute, OtherSentencesAreNoAnswer) {
  FirstMinute minute(16);
  for (const char* text :
       {"generation 1 failed", "generation x: 2 ranks on 2 nodes", "generation 1: 2 ranks", ""}) {
    EXPECT_THAT(minute.on_agent_line(text, {}), IsEmpty());
  }
  EXPECT_EQ(minute.on_agent_line("generation 1: 1 rank on 1 node", {}).size(), 2U);
}

}  // namespace
}  // namespace shanty::follow
