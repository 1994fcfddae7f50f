#include "net/parent_watch.h"

#include <csignal>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "net/test_support.h"
#include "os/fd.h"

namespace shanty::net {
namespace {

constexpr pid_t kNobody = 0x7fffffff;  // beyond the kernel's largest pid

TEST(ParentWatch, IsQuietWhileTheParentLivesAndKeepsTheLoopUntilItIsStopped) {
  boost::asio::io_context io;
  ParentWatch watch(io);
  bool told = false;
  watch.start(::getppid(), [&] { told = true; });
  io.run_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(told);
  EXPECT_FALSE(io.stopped());
  watch.stop();
  EXPECT_TRUE(run_until(io, [&] { return io.stopped(); }));
  EXPECT_FALSE(told);
}

TEST(ParentWatch, TellsOfAParentThatWasGoneBeforeItStartedButNotAtOnce) {
  for (const pid_t gone : {kNobody, ::getpid()}) {  // no such process; one that is not our parent
    boost::asio::io_context io;
    ParentWatch watch(io);
    int told = 0;
    watch.start(gone, [&] { ++told; });
    EXPECT_EQ(told, 0);
    io.run();
    EXPECT_EQ(told, 1);
  }
}

TEST(ParentWatch, IsQuietAfterItsStopAndWithNobodyToWatch) {
  boost::asio::io_context io;
  ParentWatch stopped(io);
  stopped.start(kNobody, [] { ADD_FAILURE(); });
  stopped.stop();
  ParentWatch idle(io);
  idle.start(0, [] { ADD_FAILURE(); });
  io.run();
}

// A child that watches its parent says so, and says when the parent has been killed.
TEST(ParentWatch, TellsWhenTheParentIsKilled) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const Fd read_end(fds[0]);
  Fd write_end(fds[1]);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t parents_pid = ::getpid();
    if (::fork() != 0) {
      for (;;) ::pause();
    }
    const auto say = [&](char c) {
      if (::write(write_end.get(), &c, 1) != 1) ::_exit(1);
    };
    boost::asio::io_context io;
    ParentWatch watch(io);
    watch.start(parents_pid, [&] { say('d'); });
    say('w');
    io.run_for(kPatience);
    ::_exit(0);
  }
  write_end.reset();
  char said = 0;
  ASSERT_EQ(::read(read_end.get(), &said, 1), 1);
  EXPECT_EQ(said, 'w');
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::read(read_end.get(), &said, 1), 1);
  EXPECT_EQ(said, 'd');
  ::waitpid(parent, nullptr, 0);
}

}  // namespace
}  // namespace shanty::net
