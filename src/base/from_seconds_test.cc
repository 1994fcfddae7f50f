#include "base/from_seconds.h"

#include <limits>

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(FromSeconds, TakesWhatPeopleGive) {
  EXPECT_EQ(from_seconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_EQ(from_seconds(0), Duration::zero());
  EXPECT_EQ(from_seconds(-3), Duration::zero());
}

TEST(FromSeconds, NeverOverflows) {
  EXPECT_EQ(from_seconds(1e11), kLongestDuration);
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::infinity()), kLongestDuration);
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::quiet_NaN()), Duration::zero());
  const TimePoint now{int64_t{20} * 365 * 24 * 3600 * 1'000'000'000};
  EXPECT_GT(now + kLongestDuration + kLongestDuration, now);
}

}  // namespace
}  // namespace shanty
