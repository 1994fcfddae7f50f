#include "base/budget.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

using std::chrono::seconds;

TEST(Budget, AllowsSoManyWithinTheWindowAndMoreBehindIt) {
  const TimePoint start{.ns = 5'000'000'000};
  Budget budget(2, seconds(60));
  EXPECT_TRUE(budget.allow(start));
  EXPECT_TRUE(budget.allow(start + seconds(59)));
  EXPECT_FALSE(budget.allow(start + seconds(60)));
  EXPECT_TRUE(budget.allow(start + seconds(61))) << "the first is over a window ago";
  EXPECT_FALSE(budget.allow(start + seconds(61))) << "what was refused does not count";
}

}  // namespace
}  // namespace shanty
