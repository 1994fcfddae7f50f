#include "gang/agent.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gang/gang_test_util.h"

namespace shanty::gang {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kMe = 77;

struct AgentTest : ::testing::Test {
  AgentState state{.config = {.incarnation = kMe,
                              .node = "hostA",
                              .slots = 2,
                              .address = "10.0.0.1",
                              .grace = seconds(15),
                              .restart_grace = seconds(5),
                              .orphan_limit = seconds(60)}};
  Asked<AgentAction> asked;
  int64_t now_ms = 1000;
  uint64_t seq = 0;

  AgentTest() { step(PortReserved{4711}); }

  void step(const AgentEvent& event) { asked = {step_agent(state, event, at_ms(now_ms))}; }
  void tick_after(int64_t ms) {
    now_ms += ms;
    step(Tick{});
  }
  Directive directive(Wish wish, Generation generation) {
    return {.epoch = 3,
            .seq = ++seq,
            .to_incarnation = kMe,
            .wish = wish,
            .world = {.generation = generation,
                      .node_count = 2,
                      .first_rank = 4,
                      .local_size = 2,
                      .world_size = 6},
            .reason = "because"};
  }
  void tell(Wish wish, Generation generation) {
    step(DirectiveReceived{directive(wish, generation)});
  }
  void worker_ends(int local_rank, int signal, int code = 0, Generation generation = 1) {
    step(WorkersEnded{generation,
                      {{.local_rank = local_rank, .exit_code = code, .signal = signal}}});
  }
  Report report() const { return asked.last<SendReport>().report; }
};

TEST_F(AgentTest, SaysHelloWithWhoItIs) {
  EXPECT_EQ(report().incarnation, kMe);
  EXPECT_EQ(report().node, "hostA");
  EXPECT_EQ(report().slots, 2);
  EXPECT_EQ(report().free_port, 4711);
  EXPECT_EQ(report().seq, 1u);
  EXPECT_EQ(report().phase, AgentPhase::kIdle);
}

TEST_F(AgentTest, ReportsEverySecondWithoutChange) {
  tick_after(999);
  EXPECT_FALSE(asked.has<SendReport>());
  tick_after(1);
  EXPECT_TRUE(asked.has<SendReport>());
}

TEST_F(AgentTest, RunsAWorldAndSaysSoAtOnce) {
  tell(Wish::kRun, 1);
  ASSERT_TRUE(asked.has<StartWorkers>());
  EXPECT_EQ(asked.last<StartWorkers>().world.first_rank, 4);
  EXPECT_EQ(report().phase, AgentPhase::kRunning);
  EXPECT_EQ(report().epoch, 3u);
}

TEST_F(AgentTest, StartsAGenerationOnlyOnce) {
  tell(Wish::kRun, 1);
  tell(Wish::kRun, 1);
  EXPECT_FALSE(asked.has<StartWorkers>());
}

TEST_F(AgentTest, IgnoresWhatIsNotForItOrWasOvertaken) {
  Directive d = directive(Wish::kRun, 1);
  d.to_incarnation = kMe + 1;
  step(DirectiveReceived{d});
  EXPECT_FALSE(asked.has<StartWorkers>());

  tell(Wish::kWait, 0);
  d.to_incarnation = kMe;
  step(DirectiveReceived{d});
  EXPECT_FALSE(asked.has<StartWorkers>()) << "a lower seq";

  d = directive(Wish::kRun, 1);
  d.epoch = 2;
  step(DirectiveReceived{d});
  EXPECT_FALSE(asked.has<StartWorkers>()) << "a lower epoch";
}

TEST_F(AgentTest, AHigherEpochStartsItsOwnSequence) {
  tell(Wish::kWait, 0);
  tell(Wish::kWait, 0);
  Directive d = directive(Wish::kRun, 1);
  d.epoch = 4;
  d.seq = 1;
  step(DirectiveReceived{d});
  EXPECT_TRUE(asked.has<StartWorkers>());
}

TEST_F(AgentTest, IsDoneOnlyWhenNothingIsLeft) {
  tell(Wish::kRun, 1);
  worker_ends(0, 0);
  worker_ends(1, 0);
  EXPECT_EQ(report().phase, AgentPhase::kRunning);
  step(WorkersGone{1});
  EXPECT_EQ(report().phase, AgentPhase::kDone);
}

TEST_F(AgentTest, KillsStraysOfFinishedRanksAfterAGrace) {
  tell(Wish::kRun, 1);
  worker_ends(0, 0);
  worker_ends(1, 0);
  tick_after(4900);
  EXPECT_FALSE(asked.has<SignalWorkers>());
  tick_after(100);
  EXPECT_TRUE(asked.last<SignalWorkers>().kill);
  step(WorkersGone{1});
  EXPECT_EQ(report().phase, AgentPhase::kDone);
}

TEST_F(AgentTest, AFailureStopsTheNeighboursAtOnce) {
  tell(Wish::kRun, 1);
  worker_ends(1, SIGKILL);
  ASSERT_TRUE(asked.has<SignalWorkers>());
  EXPECT_FALSE(asked.last<SignalWorkers>().kill);
  EXPECT_EQ(report().phase, AgentPhase::kStopping);
  ASSERT_EQ(report().exits.size(), 1u);
  EXPECT_EQ(report().exits[0].rank, 5);
  EXPECT_FALSE(report().exits[0].requested);

  worker_ends(0, SIGTERM);
  EXPECT_TRUE(report().exits[1].requested);
  EXPECT_TRUE(asked.last<SignalWorkers>().kill) << "no rank is left, only strays can be";
  step(WorkersGone{1});
  EXPECT_EQ(report().phase, AgentPhase::kIdle);
}

// An agent that was held up finds several dead at once, and the kernel tells no order.
TEST_F(AgentTest, EndsThatWereFoundTogetherAreNoneOfItsDoing) {
  tell(Wish::kRun, 1);
  step(WorkersEnded{1,
                    {{.local_rank = 0, .exit_code = 1, .error_unix_ns = 500, .error = "reset"},
                     {.local_rank = 1, .signal = SIGKILL}}});
  ASSERT_EQ(report().exits.size(), 2u);
  EXPECT_FALSE(report().exits[0].requested);
  EXPECT_FALSE(report().exits[1].requested);
  EXPECT_EQ(report().exits[1].error_unix_ns, 500) << "it may have been the first";
}

TEST_F(AgentTest, AKillThatItDidNotSendWasNotRequested) {
  tell(Wish::kRun, 1);
  worker_ends(0, 0, 1);
  worker_ends(1, SIGKILL);
  EXPECT_FALSE(report().exits[1].requested) << "only SIGTERM was sent by then";
}

TEST_F(AgentTest, AKillAfterTheGraceWasRequested) {
  tell(Wish::kRun, 1);
  worker_ends(0, 0, 1);
  tick_after(5000);
  worker_ends(1, SIGKILL);
  EXPECT_TRUE(report().exits[1].requested);
}

TEST_F(AgentTest, KillsWhatOutlivesTheGraceAndAgainUntilItIsGone) {
  tell(Wish::kRun, 1);
  worker_ends(1, 0, 1);
  tick_after(4999);
  EXPECT_FALSE(asked.has<SignalWorkers>());
  tick_after(1);
  EXPECT_TRUE(asked.last<SignalWorkers>().kill);
  tick_after(1000);
  EXPECT_TRUE(asked.last<SignalWorkers>().kill);
}

TEST_F(AgentTest, AStopOfTheJobGivesTheFullGrace) {
  tell(Wish::kRun, 1);
  Directive d = directive(Wish::kStop, 1);
  d.outcome = Outcome::kStopped;
  step(DirectiveReceived{d});
  EXPECT_FALSE(asked.last<SignalWorkers>().kill);
  tick_after(14'900);
  EXPECT_FALSE(asked.has<SignalWorkers>());
  tick_after(100);
  EXPECT_TRUE(asked.last<SignalWorkers>().kill);
}

TEST_F(AgentTest, IgnoresAStopOfAnOlderGeneration) {
  tell(Wish::kRun, 2);
  tell(Wish::kStop, 1);
  EXPECT_FALSE(asked.has<SignalWorkers>());
}

TEST_F(AgentTest, StopsAnOlderGenerationBeforeItRunsANewer) {
  tell(Wish::kRun, 1);
  tell(Wish::kRun, 2);
  EXPECT_FALSE(asked.has<StartWorkers>());
  EXPECT_TRUE(asked.has<SignalWorkers>());
  worker_ends(0, SIGTERM);
  worker_ends(1, SIGTERM);
  step(WorkersGone{1});
  tell(Wish::kRun, 2);
  EXPECT_EQ(asked.last<StartWorkers>().world.generation, 2u);
}

TEST_F(AgentTest, AFailedStartIsAnEndOfEveryRank) {
  tell(Wish::kRun, 1);
  step(StartFailed{1, "cannot start python: no such file"});
  EXPECT_TRUE(asked.last<SignalWorkers>().kill);
  ASSERT_EQ(report().exits.size(), 2u);
  EXPECT_EQ(report().exits[1].error, "cannot start python: no such file");
  EXPECT_TRUE(report().exits[1].failed());
  step(WorkersGone{1});
  EXPECT_EQ(report().phase, AgentPhase::kIdle);
}

TEST_F(AgentTest, AWorkerThatVanishedIsNoSuccess) {
  tell(Wish::kRun, 1);
  worker_ends(0, 0);
  step(WorkersGone{1});
  EXPECT_EQ(report().phase, AgentPhase::kIdle);
}

TEST_F(AgentTest, HandsTheSignalThatStopsTheJobToTheWorkers) {
  tell(Wish::kRun, 1);
  Directive d = directive(Wish::kStop, 1);
  d.outcome = Outcome::kStopped;
  d.stop_signal = SIGUSR1;
  step(DirectiveReceived{d});
  EXPECT_EQ(asked.last<SignalWorkers>().signal, SIGUSR1);
}

TEST_F(AgentTest, HandsTheSignalThatItGotToTheWorkers) {
  tell(Wish::kRun, 1);
  step(LeaveRequested{"SIGINT", SIGINT});
  EXPECT_EQ(asked.last<SignalWorkers>().signal, SIGINT);
}

TEST_F(AgentTest, StopsAFailedGenerationBySigtermWhateverWillStopTheJob) {
  tell(Wish::kRun, 1);
  Directive d = directive(Wish::kStop, 1);
  d.stop_signal = SIGUSR1;
  step(DirectiveReceived{d});
  EXPECT_EQ(asked.last<SignalWorkers>().signal, SIGTERM);
}

TEST_F(AgentTest, LeavesOnlyWhenItsWorkersAreGone) {
  tell(Wish::kRun, 1);
  step(LeaveRequested{"SIGTERM"});
  EXPECT_TRUE(report().leaving);
  EXPECT_FALSE(asked.has<ExitAgent>());
  worker_ends(0, 0);
  worker_ends(1, SIGTERM);
  EXPECT_FALSE(asked.has<ExitAgent>());
  step(WorkersGone{1});
  EXPECT_EQ(asked.last<ExitAgent>().outcome, Outcome::kStopped);
  EXPECT_TRUE(report().leaving);
  tell(Wish::kRun, 2);
  EXPECT_TRUE(asked.actions.empty());
}

TEST_F(AgentTest, TheEndIsSaidGoodbyeTo) {
  Directive d = directive(Wish::kEnd, 0);
  d.outcome = Outcome::kSucceeded;
  step(DirectiveReceived{d});
  EXPECT_TRUE(report().leaving);
  EXPECT_EQ(asked.last<ExitAgent>().outcome, Outcome::kSucceeded);
}

TEST_F(AgentTest, AnOrphanStopsItsWorkersAndLeaves) {
  tell(Wish::kRun, 1);
  for (int i = 0; i < 59; ++i) tick_after(1000);
  EXPECT_FALSE(asked.has<SignalWorkers>());
  tick_after(1000);
  EXPECT_TRUE(asked.has<SignalWorkers>());
  EXPECT_TRUE(report().leaving);
  EXPECT_THAT(report().leave_reason, testing::HasSubstr("no word from the coordinator"));
}

TEST_F(AgentTest, AProcessThatWasStoppedItselfIsNoOrphanYet) {
  tell(Wish::kRun, 1);
  tick_after(600'000);
  EXPECT_FALSE(report().leaving);
}

TEST_F(AgentTest, WaitsLongForTheFirstWord) {
  for (int i = 0; i < 1799; ++i) tick_after(1000);
  EXPECT_FALSE(report().leaving);
  tick_after(1000);
  EXPECT_TRUE(report().leaving);
  EXPECT_EQ(asked.last<ExitAgent>().outcome, Outcome::kFailed);
}

TEST_F(AgentTest, AUsedPortIsNotOfferedAgain) {
  Directive d = directive(Wish::kRun, 1);
  d.world.master_port = 4711;
  step(DirectiveReceived{d});
  EXPECT_EQ(report().free_port, 0);
}

}  // namespace
}  // namespace shanty::gang
