#include "os/process.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

struct Finished {
  int status = 0;
  std::string output;
};

Finished run_to_end(SpawnOptions options) {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  Fd read_end(fds[0]);
  Fd write_end(fds[1]);
  options.stdout_fd = write_end.get();
  const auto pid = spawn(options);
  EXPECT_TRUE(pid.ok()) << pid.error().message;
  write_end.reset();
  Finished out;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(read_end.get(), buffer, sizeof buffer)) > 0) {
    out.output.append(buffer, static_cast<size_t>(n));
  }
  ::waitpid(*pid, &out.status, 0);
  return out;
}

TEST(Spawn, GivesTheChildItsArgumentsEnvironmentAndDirectory) {
  const auto result = run_to_end({.argv = {"sh", "-c", "echo $X $0 $1; pwd", "a", "b c"},
                                  .env = {"PATH=/usr/bin:/bin", "X=one"},
                                  .working_dir = "/tmp"});
  EXPECT_EQ(result.output, "one a b c\n/tmp\n");
}

TEST(Spawn, TellsTheChildItsOwnPid) {
  const auto result = run_to_end({.argv = {"sh", "-c", "test $$ = $P && echo same"},
                                  .env = {"PATH=/usr/bin:/bin"},
                                  .pid_variable = "P"});
  EXPECT_EQ(result.output, "same\n");
}

TEST(Spawn, SaysWhyExecFailed) {
  const auto missing = spawn({.argv = {"/no/such/program"}, .env = {}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "starting /no/such/program: No such file or directory");
  const auto forbidden = spawn({.argv = {"/etc/passwd"}, .env = {}});
  ASSERT_FALSE(forbidden.ok());
  EXPECT_EQ(forbidden.error().message, "starting /etc/passwd: Permission denied");
}

TEST(Spawn, HandsDownOnlyTheNamedDescriptors) {
  Fd kept(::open("/dev/null", O_RDONLY));
  Fd dropped(::open("/dev/null", O_RDONLY));
  const std::string script = "test -e /proc/self/fd/" + std::to_string(kept.get()) +
                             " && echo kept; test -e /proc/self/fd/" +
                             std::to_string(dropped.get()) + " || echo dropped";
  const auto result = run_to_end(
      {.argv = {"sh", "-c", script}, .env = {"PATH=/usr/bin:/bin"}, .inherited_fds = {kept.get()}});
  EXPECT_EQ(result.output, "kept\ndropped\n");
}

TEST(Spawn, GivesTheLimitOfDescriptorsBackThatWasRaised) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(200, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_descriptor_limit();
  rlimit raised{};
  ::getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  const auto result =
      run_to_end({.argv = {"sh", "-c", "ulimit -Sn"}, .env = {"PATH=/usr/bin:/bin"}});
  EXPECT_EQ(result.output, std::to_string(low.rlim_cur) + "\n");
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Pidfd, BecomesReadableWhenTheProcessIsKilled) {
  const auto pid = spawn({.argv = {"sleep", "60"}, .env = {"PATH=/usr/bin:/bin"}});
  ASSERT_TRUE(pid.ok());
  const auto pidfd = open_pidfd(*pid);
  ASSERT_TRUE(pidfd.ok());
  pollfd poll_fd{pidfd->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll_fd, 1, 0), 0);
  ::kill(*pid, SIGKILL);
  EXPECT_EQ(::poll(&poll_fd, 1, 60'000), 1);
  const auto reaped = reap_children();
  ASSERT_EQ(reaped.size(), 1U);
  EXPECT_EQ(reaped[0].signal, SIGKILL);
}

TEST(Subreaper, AdoptsOrphansAndListsThem) {
  ASSERT_TRUE(become_subreaper().ok());
  const auto result = run_to_end(
      {.argv = {"sh", "-c", "sleep 60 >/dev/null & echo $!"}, .env = {"PATH=/usr/bin:/bin"}});
  const pid_t orphan = std::stoi(result.output);
  const auto children = list_children();
  EXPECT_EQ(children, std::vector<pid_t>{orphan});
  ::kill(orphan, SIGKILL);
  ::waitpid(orphan, nullptr, 0);
}

TEST(Descendants, AreFoundThroughAllLevels) {
  const auto pid = spawn({.argv = {"sh", "-c", "sh -c 'sleep 60; :' ; :"},
                          .env = {"PATH=/usr/bin:/bin"},
                          .new_session = true});
  ASSERT_TRUE(pid.ok());
  std::vector<pid_t> found;
  for (int tries = 0; found.size() < 2 && tries < 100'000; ++tries) found = list_descendants(*pid);
  EXPECT_EQ(found.size(), 2U);
  ::killpg(*pid, SIGKILL);
  for (const pid_t child : found) ::waitpid(child, nullptr, 0);
  ::waitpid(*pid, nullptr, 0);
}

}  // namespace
}  // namespace shanty
