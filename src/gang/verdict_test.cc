#include "gang/verdict.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::gang {
namespace {

using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1'000'000'000;

Candidate ended(int rank, int64_t at_ms, WorkerExit exit) {
  exit.rank = rank;
  return {.exit = exit, .node_rank = rank, .node = "host", .unix_ns = at_ms * kMs};
}
Candidate killed(int rank, int64_t at_ms, int signal) {
  return ended(rank, at_ms, {.signal = signal});
}
Candidate raised(int rank, int64_t at_ms, const char* error, uint64_t step = kNoStep) {
  return ended(rank, at_ms, {.exit_code = 1, .step = step, .error = error});
}
Candidate lost(int node_rank, int64_t at_ms) {
  return {.node_rank = node_rank,
          .node = "host",
          .node_reason = "node lost: no word for 3 s",
          .unix_ns = at_ms * kMs};
}
Candidate requested(Candidate c) {
  c.exit->requested = true;
  return c;
}

TEST(RootCause, IsTheLikeliestAmongTheEarliest) {
  struct Case {
    const char* name;
    std::vector<Candidate> candidates;
    const char* reason;
    int rank;
  };
  const char* reset = "RuntimeError: Connection reset by peer";
  const Case cases[] = {
      {"the only one", {raised(3, 0, "ValueError: x")}, "exited with code 1", 3},
      {"a kill before the peers that felt it",
       {raised(0, 0, reset), killed(1, 40, SIGKILL)},
       "killed by SIGKILL",
       1},
      {"an exception before its peers",
       {raised(0, 0, reset), raised(2, 300, "KeyError: 'x'"), raised(1, 10, reset)},
       "exited with code 1",
       2},
      {"an exception before an abort",
       {killed(0, 0, SIGABRT), raised(1, 500, "KeyError: 'x'")},
       "exited with code 1",
       1},
      {"an abort before a peer's words",
       {raised(0, 0, "torch.distributed.DistBackendError: NCCL error"), killed(1, 9, SIGABRT)},
       "killed by SIGABRT",
       1},
      {"a lost node before the peers that felt it",
       {raised(0, 100, reset), lost(1, 0)},
       "node lost: no word for 3 s",
       -1},
      {"what came more than a second later is a consequence",
       {raised(0, 0, "KeyError: 'x'"), killed(1, 1001, SIGKILL)},
       "exited with code 1",
       0},
      {"but not of a death that others speak of",
       {raised(0, 0, reset), killed(1, 4000, SIGKILL)},
       "killed by SIGKILL",
       1},
      {"of equals the earlier",
       {killed(0, 20, SIGSEGV), killed(1, 10, SIGBUS)},
       "killed by SIGBUS",
       1},
      {"of simultaneous equals the lower rank",
       {killed(5, 10, SIGSEGV), killed(4, 10, SIGSEGV)},
       "killed by SIGSEGV",
       4},
      {"what was requested is nobody's fault",
       {requested(killed(0, 0, SIGTERM)), raised(1, 2000, "KeyError: 'x'")},
       "exited with code 1",
       1},
  };
  for (const Case& c : cases) {
    const auto failure = choose_root_cause(c.candidates, 7);
    ASSERT_TRUE(failure) << c.name;
    EXPECT_EQ(failure->reason, c.reason) << c.name;
    EXPECT_EQ(failure->rank, c.rank) << c.name;
    EXPECT_EQ(failure->generation, 7u) << c.name;
  }
}

TEST(RootCause, IsNothingWhenAllWasRequested) {
  EXPECT_FALSE(choose_root_cause(std::vector{requested(killed(0, 0, SIGKILL))}, 1));
  EXPECT_FALSE(choose_root_cause({}, 1));
}

TEST(RootCause, NamesTheOutOfMemoryKiller) {
  const auto f = choose_root_cause(
      std::vector{ended(2, 0, {.signal = SIGKILL, .out_of_memory = true, .step = 5})}, 1);
  EXPECT_EQ(f->reason, "killed by SIGKILL (out of memory)");
  EXPECT_FALSE(f->signature.empty());
}

TEST(Signature, IsEmptyForWhatSaysNothingAboutTheProgram) {
  const auto signature = [](const Candidate& c) {
    return choose_root_cause(std::vector{c}, 1)->signature;
  };
  EXPECT_EQ(signature(ended(0, 0, {.signal = SIGKILL, .step = 60})), "");
  EXPECT_EQ(signature(ended(0, 0, {.signal = SIGTERM, .step = 60})), "");
  EXPECT_EQ(signature(lost(0, 0)), "");
  EXPECT_EQ(signature(ended(0, 0, {.exit_code = 1})), "") << "neither step nor error";
  EXPECT_NE(signature(ended(0, 0, {.signal = SIGSEGV, .step = 60})), "");
  EXPECT_EQ(signature(raised(1, 0, "ValueError: x\n  more", 60)),
            signature(raised(1, 9, "ValueError: x\n  other", 60)));
  EXPECT_NE(signature(raised(1, 0, "ValueError: x", 60)),
            signature(raised(1, 0, "ValueError: x", 61)));
  EXPECT_NE(signature(raised(1, 0, "ValueError: x", 60)),
            signature(raised(2, 0, "ValueError: x", 60)));
}

struct RestartTest : ::testing::Test {
  RestartRules rules{.max_restarts = 2};
  std::vector<Failure> before;

  Decision decide(const Candidate& c, int64_t now_ns = 100 * kS) {
    return decide_restart(rules, before, static_cast<int>(before.size()),
                          *choose_root_cause(std::vector{c}, 9), now_ns);
  }
};

TEST_F(RestartTest, TheBudgetOfTheWholeJob) {
  EXPECT_TRUE(decide(killed(0, 0, SIGKILL)).restart);
  before.resize(2);
  const Decision d = decide(killed(0, 0, SIGKILL));
  EXPECT_FALSE(d.restart);
  EXPECT_THAT(d.reason, HasSubstr("the restart budget of 2 is used up"));
}

TEST_F(RestartTest, TheBudgetOfAWindowForgets) {
  rules.restart_window = std::chrono::seconds(10);
  before = {{.unix_ns = 85 * kS}, {.unix_ns = 95 * kS}};
  EXPECT_TRUE(decide(killed(0, 0, SIGKILL)).restart);
  before.push_back({.unix_ns = 96 * kS});
  EXPECT_FALSE(decide(killed(0, 0, SIGKILL)).restart);
}

TEST_F(RestartTest, NoneAllowed) {
  rules.max_restarts = 0;
  EXPECT_THAT(decide(killed(0, 0, SIGKILL)).reason, HasSubstr("no restart is allowed"));
}

TEST_F(RestartTest, TheSameFailureTwiceIsTheProgramsFault) {
  const Candidate c = raised(1, 0, "ValueError: bad", 60);
  EXPECT_TRUE(decide(c).restart);
  before = {*choose_root_cause(std::vector{c}, 8)};
  const Decision d = decide(c);
  EXPECT_FALSE(d.restart);
  EXPECT_THAT(d.reason, HasSubstr("rank 1 failed twice at step 60 with ValueError: bad"));
  EXPECT_TRUE(decide(raised(1, 0, "ValueError: bad", 61)).restart);
}

TEST_F(RestartTest, AnExitOfItsOwnEndsTheJobWhereThatIsAsked) {
  rules.restart_on_exit = false;
  EXPECT_FALSE(decide(raised(1, 0, "ValueError: bad", 60)).restart);
  EXPECT_TRUE(decide(killed(1, 0, SIGSEGV)).restart);
  EXPECT_TRUE(decide(lost(1, 0)).restart);
}

}  // namespace
}  // namespace shanty::gang
