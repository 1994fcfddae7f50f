#include "base/signal_name.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(SignalName, NamesKnownSignals) {
  EXPECT_EQ(signal_name(9), "SIGKILL");
  EXPECT_EQ(signal_name(50), "signal 50");
}

}  // namespace
}  // namespace shanty
