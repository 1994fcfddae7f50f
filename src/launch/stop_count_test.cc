#include "launch/stop_count.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StopCount, ASignalThatComesAgainAtOnceIsOne) {
  StopCount count;
  EXPECT_EQ(count.take(TimePoint() + seconds(9)), 1);
  EXPECT_EQ(count.take(TimePoint() + seconds(9) + milliseconds(199)), 0);
  EXPECT_EQ(count.take(TimePoint() + seconds(9) + milliseconds(200)), 2);
  EXPECT_EQ(count.count(), 2);
}

TEST(StopCount, SoIsOneThatWaitedWhileTheFirstWasActedOn) {
  StopCount count;
  EXPECT_EQ(count.take(TimePoint()), 1);
  count.acted(TimePoint() + seconds(5));
  EXPECT_EQ(count.take(TimePoint() + seconds(5) + milliseconds(1)), 0);
  EXPECT_EQ(count.take(TimePoint() + seconds(6)), 2);
}

}  // namespace
}  // namespace shanty
