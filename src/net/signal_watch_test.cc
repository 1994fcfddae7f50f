#include "net/signal_watch.h"

#include <csignal>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/test_support.h"

namespace shanty::net {
namespace {

using testing::ElementsAre;

TEST(SignalWatch, HandsOverEachSignalAlsoThoseThatCameBeforeItsStart) {
  boost::asio::io_context io;
  SignalWatch watch(io, {SIGUSR1, SIGUSR2});
  std::vector<int> got;
  ::raise(SIGUSR1);
  watch.start([&](int signal) { got.push_back(signal); });
  EXPECT_TRUE(run_until(io, [&] { return got.size() == 1; }));
  ::raise(SIGUSR2);
  EXPECT_TRUE(run_until(io, [&] { return got.size() == 2; }));
  EXPECT_THAT(got, ElementsAre(SIGUSR1, SIGUSR2));
  watch.stop();
  EXPECT_TRUE(run_until(io, [&] { return io.stopped(); }));
}

// An agent whose workers all died at one moment waited for ever: it left on the first SIGCHLD, and
// the second one, which had arrived by then, made it wait for a third.
TEST(SignalWatch, ASignalThatArrivedBeforeTheStopDoesNotKeepTheLoop) {
  boost::asio::io_context io;
  SignalWatch watch(io, {SIGUSR1});
  int got = 0;
  watch.start([&](int) {
    if (++got == 1) watch.stop();
  });
  for (int i = 0; i < 3; ++i) ::raise(SIGUSR1);
  EXPECT_TRUE(run_until(io, [&] { return io.stopped(); }));
  EXPECT_EQ(got, 1);
}

}  // namespace
}  // namespace shanty::net
