#include "cli/rank_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::ElementsAre;

TEST(RankList, TakesNumbersAndRangesInAnyOrder) {
  EXPECT_THAT(*parse_rank_list("7"), ElementsAre(7));
  EXPECT_THAT(*parse_rank_list("3-5,0,4"), ElementsAre(0, 3, 4, 5));
}

TEST(RankList, RefusesEverythingElse) {
  for (const char* text :
       {"", ",", "1,", "a", "-1", "5-3", "1-", "1 ", "1-2-3", "9999999999", "0-1000001"}) {
    EXPECT_FALSE(parse_rank_list(text).ok()) << text;
  }
}

}  // namespace
}  // namespace shanty
