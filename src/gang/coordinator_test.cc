#include "gang/coordinator.h"

#include <csignal>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gang/gang_test_util.h"

namespace shanty::gang {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

// A coordinator and the reports its agents would send, by incarnation.
struct CoordinatorTest : ::testing::Test {
  CoordinatorState state{.config = {.node_count = 2, .max_restarts = 3, .agent_grace = seconds(5)}};
  Asked<CoordinatorAction> asked;
  int64_t now_ms = 1000;
  std::map<uint64_t, Report> reports;

  void step(const CoordinatorEvent& event) {
    asked = {step_coordinator(state, event, at_ms(now_ms))};
  }
  Report& agent(uint64_t incarnation, int wanted = -1, int slots = 1) {
    Report& r = reports[incarnation];
    r.incarnation = incarnation;
    r.node = "host" + std::to_string(incarnation);
    r.address = "10.0.0." + std::to_string(incarnation);
    r.wanted_node_rank = wanted;
    r.slots = slots;
    r.free_port = static_cast<uint16_t>(5000 + incarnation);
    return r;
  }
  void hear(uint64_t incarnation) {
    Report& r = reports.at(incarnation);
    ++r.seq;
    step(ReportReceived{r});
  }
  void join(uint64_t incarnation, int wanted = -1, int slots = 1) {
    agent(incarnation, wanted, slots);
    hear(incarnation);
  }
  Directive to(uint64_t incarnation) const {
    Directive found;
    for (const auto& send : asked.all<SendDirective>()) {
      if (send.directive.to_incarnation == incarnation) found = send.directive;
    }
    return found;
  }
  // The agent does what the last directives said.
  void obey_run(uint64_t incarnation, const World& world) {
    Report& r = reports.at(incarnation);
    r.phase = AgentPhase::kRunning;
    r.world = world;
    r.exits.clear();
    hear(incarnation);
  }
  void start_two(int first_slots = 1, int second_slots = 1) {
    join(1, -1, first_slots);
    join(2, -1, second_slots);
    const World first = to(1).world;
    const World second = to(2).world;
    obey_run(1, first);
    obey_run(2, second);
  }
  void set_phase(uint64_t incarnation, AgentPhase phase) {
    reports.at(incarnation).phase = phase;
    hear(incarnation);
  }
  void fail_worker(uint64_t incarnation, WorkerExit exit) {
    Report& r = reports.at(incarnation);
    exit.rank = r.world.first_rank + exit.local_rank;
    r.exits.push_back(exit);
    set_phase(incarnation, AgentPhase::kStopping);
  }
  void tick_after(int64_t ms) {
    now_ms += ms;
    step(Tick{});
  }
  // Lets time pass in which only the given agents report.
  void pass(int64_t ms, const std::vector<uint64_t>& alive) {
    for (int64_t left = ms; left > 0; left -= 500) {
      tick_after(500);
      for (const uint64_t incarnation : alive) hear(incarnation);
    }
  }
  std::string noted(Note::Kind kind) const {
    for (const Note& note : asked.all<Note>()) {
      if (note.kind == kind) return note.text;
    }
    return "";
  }
};

TEST_F(CoordinatorTest, TheLastHelloIsAnsweredByGo) {
  join(1);
  EXPECT_EQ(to(1).wish, Wish::kWait);
  join(2);
  EXPECT_EQ(to(1).wish, Wish::kRun);
  EXPECT_EQ(to(2).wish, Wish::kRun);
  EXPECT_EQ(to(2).world.node_rank, 1);
  EXPECT_EQ(to(2).world.master_addr, "10.0.0.1");
  EXPECT_EQ(to(2).world.master_port, 5001);
  EXPECT_EQ(noted(Note::Kind::kWorldFormed), "generation 1: 2 ranks on 2 nodes");
}

TEST_F(CoordinatorTest, RanksArePrefixSumsOfTheWorkers) {
  join(1, 1, 3);
  join(2, 0, 2);
  EXPECT_EQ(to(2).world.first_rank, 0);
  EXPECT_EQ(to(1).world.first_rank, 2);
  EXPECT_EQ(to(1).world.local_size, 3);
  EXPECT_EQ(to(1).world.world_size, 5);
}

TEST_F(CoordinatorTest, FixedRanksComeBeforeFirstCome) {
  join(1);
  join(2, 0);
  EXPECT_EQ(to(2).world.node_rank, 0);
  EXPECT_EQ(to(1).world.node_rank, 1);
}

TEST_F(CoordinatorTest, ATakenRankIsWaitedForByName) {
  join(1, 0);
  join(2, 0);
  EXPECT_EQ(to(2).wish, Wish::kWait);
  EXPECT_EQ(to(2).reason, "node rank 0 is held by host1");
  step(AgentDisconnected{1});
  EXPECT_EQ(state.slots[0], 2u) << "taken over at once when the holder's connection closes";
}

TEST_F(CoordinatorTest, ATakenRankIsFreeWhenTheLeaseRunsOut) {
  join(1, 0);
  join(2, 0);
  pass(3000, {2});
  EXPECT_EQ(state.slots[0], 2u);
}

TEST_F(CoordinatorTest, AnImpossibleRankIsRefused) {
  join(1, 2);
  EXPECT_EQ(to(1).wish, Wish::kEnd);
  EXPECT_EQ(to(1).outcome, Outcome::kFailed);
  EXPECT_THAT(noted(Note::Kind::kAgentRefused), HasSubstr("does not exist in a job of 2 nodes"));
}

TEST_F(CoordinatorTest, MoreAgentsThanRanksAreSpares) {
  start_two();
  join(3);
  EXPECT_EQ(to(3).wish, Wish::kWait);
  EXPECT_THAT(to(3).reason, HasSubstr("spare"));
}

TEST_F(CoordinatorTest, SaysWhoIsMissingAndGivesUpInTheEnd) {
  state.config.join_limit = seconds(30);
  join(1);
  std::string said;
  while (state.phase == JobPhase::kForming) {
    tick_after(500);
    if (!noted(Note::Kind::kWaiting).empty()) said = noted(Note::Kind::kWaiting);
    hear(1);
  }
  EXPECT_THAT(said, HasSubstr("waiting for node rank 1"));
  EXPECT_EQ(state.outcome, Outcome::kFailed);
  EXPECT_THAT(state.end_reason, HasSubstr("gave up waiting for node rank 1"));
}

TEST_F(CoordinatorTest, OvertakenReportsAreVoid) {
  join(1);
  reports.at(1).seq = 5;
  hear(1);
  reports.at(1).seq = 3;
  hear(1);
  EXPECT_TRUE(asked.actions.empty());
}

TEST_F(CoordinatorTest, EveryReportIsAnswered) {
  start_two();
  hear(2);
  EXPECT_EQ(to(2).wish, Wish::kRun);
  EXPECT_EQ(asked.actions.size(), 1u);
}

TEST_F(CoordinatorTest, AFailureRestartsAllInTheNextGeneration) {
  start_two();
  fail_worker(2, {.signal = SIGKILL, .step = 60});
  EXPECT_EQ(to(1).wish, Wish::kStop);
  EXPECT_EQ(to(1).outcome, Outcome::kNone);
  set_phase(2, AgentPhase::kIdle);
  EXPECT_EQ(to(2).wish, Wish::kStop) << "node 1 still stops";
  set_phase(1, AgentPhase::kIdle);
  EXPECT_EQ(to(1).wish, Wish::kRun);
  EXPECT_EQ(to(2).world.generation, 2u);
  EXPECT_EQ(to(2).world.restart_count, 1);
  ASSERT_EQ(to(2).world.history.size(), 1u);
  EXPECT_EQ(to(2).world.history[0].reason, "killed by SIGKILL");
  EXPECT_EQ(to(2).world.history[0].rank, 1);
  EXPECT_EQ(to(2).world.history[0].step, 60u);
}

TEST_F(CoordinatorTest, TheSameFailureTwiceEndsTheJob) {
  start_two();
  for (int i = 0; i < 2; ++i) {
    fail_worker(2, {.exit_code = 1, .step = 60, .error = "ValueError: bad"});
    set_phase(2, AgentPhase::kIdle);
    set_phase(1, AgentPhase::kIdle);
    if (i == 1) break;
    const World first = to(1).world;
    const World second = to(2).world;
    obey_run(1, first);
    obey_run(2, second);
  }
  EXPECT_EQ(to(1).wish, Wish::kEnd);
  EXPECT_EQ(state.outcome, Outcome::kFailed);
  EXPECT_THAT(state.end_reason, HasSubstr("rank 1 failed twice at step 60 with ValueError: bad"));
}

TEST_F(CoordinatorTest, ALostNodeIsReplacedByASpare) {
  start_two();
  join(3);
  pass(3000, {1, 3});
  EXPECT_EQ(state.phase, JobPhase::kStopping);
  set_phase(1, AgentPhase::kIdle);
  EXPECT_EQ(to(3).wish, Wish::kRun);
  EXPECT_EQ(to(3).world.node_rank, 1);
  EXPECT_EQ(to(3).world.history[0].reason, "node lost: no word for 3.0 s");
  EXPECT_EQ(to(3).world.history[0].rank, -1);
}

TEST_F(CoordinatorTest, ANodeThatDiesAfterItsPartCountsAsDone) {
  start_two();
  set_phase(2, AgentPhase::kDone);
  pass(4000, {1});
  EXPECT_EQ(state.phase, JobPhase::kRunning);
  set_phase(1, AgentPhase::kDone);
  EXPECT_EQ(to(1).wish, Wish::kEnd);
  EXPECT_EQ(state.outcome, Outcome::kSucceeded);
}

TEST_F(CoordinatorTest, StraysDoNotHoldUpASuccess) {
  start_two();
  set_phase(1, AgentPhase::kDone);
  reports.at(2).exits.push_back({.rank = 1});
  hear(2);
  EXPECT_EQ(state.outcome, Outcome::kSucceeded);
}

TEST_F(CoordinatorTest, FinishesWhenAllSaidGoodbye) {
  start_two();
  set_phase(1, AgentPhase::kDone);
  set_phase(2, AgentPhase::kDone);
  reports.at(1).leaving = true;
  hear(1);
  EXPECT_FALSE(asked.has<Finish>());
  step(AgentDisconnected{2});
  EXPECT_EQ(asked.last<Finish>().outcome, Outcome::kSucceeded);
}

TEST_F(CoordinatorTest, FinishesWithoutGoodbyeAfterALimit) {
  start_two();
  set_phase(1, AgentPhase::kDone);
  set_phase(2, AgentPhase::kDone);
  pass(4500, {1, 2});
  EXPECT_EQ(state.phase, JobPhase::kEnding);
  pass(500, {1, 2});
  EXPECT_EQ(state.phase, JobPhase::kFinished);
}

TEST_F(CoordinatorTest, AStopEndsAsStoppedOnceAllAreIdle) {
  start_two();
  step(StopRequested{"SIGTERM"});
  EXPECT_EQ(to(1).wish, Wish::kStop);
  EXPECT_EQ(to(1).outcome, Outcome::kStopped);
  set_phase(1, AgentPhase::kIdle);
  set_phase(2, AgentPhase::kIdle);
  EXPECT_EQ(to(2).wish, Wish::kEnd);
  EXPECT_EQ(state.outcome, Outcome::kStopped);
  EXPECT_EQ(state.end_reason, "SIGTERM");
}

TEST_F(CoordinatorTest, TheFirstSignalToStopIsHandedOn) {
  start_two();
  step(StopRequested{"SIGINT", SIGINT});
  EXPECT_EQ(to(1).stop_signal, SIGINT);
  step(StopRequested{"SIGTERM", SIGTERM});
  set_phase(1, AgentPhase::kStopping);
  EXPECT_EQ(to(1).stop_signal, SIGINT);
}

TEST_F(CoordinatorTest, ANodeThatGoesDuringAStopOnRequestIsNoFailure) {
  start_two();
  step(StopRequested{"SIGINT"});
  set_phase(1, AgentPhase::kIdle);
  pass(4'000, {1});
  EXPECT_EQ(state.outcome, Outcome::kStopped);
  EXPECT_TRUE(state.history.empty());
}

TEST_F(CoordinatorTest, AnAgentThatDoesNotStopFailsTheJobByName) {
  state.config.stop_limit = seconds(5);
  start_two();
  step(StopRequested{"SIGTERM"});
  set_phase(1, AgentPhase::kIdle);
  set_phase(2, AgentPhase::kStopping);
  pass(10'000, {1, 2});
  EXPECT_EQ(state.outcome, Outcome::kFailed);
  EXPECT_THAT(state.end_reason, HasSubstr("node rank 1 (host2) did not stop its workers"));
}

TEST_F(CoordinatorTest, ALeavingNodeIsAFailureThatWaitsForItsReplacement) {
  start_two();
  reports.at(2).leaving = true;
  reports.at(2).leave_reason = "SIGTERM";
  set_phase(2, AgentPhase::kStopping);
  EXPECT_EQ(to(1).wish, Wish::kStop);
  set_phase(2, AgentPhase::kIdle);
  set_phase(1, AgentPhase::kIdle);
  EXPECT_EQ(state.phase, JobPhase::kForming);
  EXPECT_EQ(state.history.back().reason, "node left: SIGTERM");
  join(3);
  EXPECT_EQ(to(3).wish, Wish::kRun);
}

TEST_F(CoordinatorTest, ASleepOfItsOwnCostsNobodyTheLease) {
  start_two();
  tick_after(600'000);
  EXPECT_EQ(state.phase, JobPhase::kRunning);
  hear(1);
  hear(2);
  EXPECT_EQ(state.phase, JobPhase::kRunning);
}

struct RebornCoordinatorTest : CoordinatorTest {
  // The coordinator dies; the next life knows only what is given here.
  void reborn(CoordinatorConfig config) {
    config.recovering = true;
    config.node_count = 2;
    state = CoordinatorState{.config = std::move(config)};
    step(Tick{});
  }
};

TEST_F(RebornCoordinatorTest, AdoptsWhatRunsWithoutDisturbingIt) {
  start_two();
  reports.at(1).epoch = reports.at(2).epoch = 1;
  reborn({.first_epoch = 2});
  hear(1);
  EXPECT_EQ(to(1).wish, Wish::kWait);
  hear(2);
  EXPECT_EQ(noted(Note::Kind::kRecovered), "found generation 1 on 2 of 2 nodes");
  EXPECT_EQ(to(1).wish, Wish::kRun);
  EXPECT_EQ(to(1).world.generation, 1u);
  set_phase(1, AgentPhase::kDone);
  set_phase(2, AgentPhase::kDone);
  EXPECT_EQ(state.outcome, Outcome::kSucceeded);
}

TEST_F(RebornCoordinatorTest, TakesAnEpochAboveTheOneItHears) {
  start_two();
  reports.at(1).epoch = 9;
  reborn({.first_epoch = 9});
  hear(1);
  EXPECT_EQ(to(1).epoch, 10u);
  reports.at(1).epoch = 10;
  hear(1);
  EXPECT_EQ(to(1).epoch, 10u) << "its own epoch coming back";
}

TEST_F(RebornCoordinatorTest, SilentNodesAreLost) {
  start_two();
  reborn({});
  pass(4500, {1});
  EXPECT_EQ(state.phase, JobPhase::kRecovering);
  pass(1000, {1});
  EXPECT_EQ(state.phase, JobPhase::kStopping);
  set_phase(1, AgentPhase::kIdle);
  EXPECT_EQ(state.history.back().reason, "node lost: no word since the coordinator came back");
}

TEST_F(RebornCoordinatorTest, RecoversTheBudgetFromTheWorlds) {
  state.config.max_restarts = 1;
  start_two();
  fail_worker(2, {.signal = SIGKILL});
  set_phase(2, AgentPhase::kIdle);
  set_phase(1, AgentPhase::kIdle);
  const World first = to(1).world;
  const World second = to(2).world;
  obey_run(1, first);
  obey_run(2, second);
  reborn({.max_restarts = 1});
  hear(1);
  hear(2);
  fail_worker(2, {.signal = SIGKILL});
  set_phase(2, AgentPhase::kIdle);
  set_phase(1, AgentPhase::kIdle);
  EXPECT_EQ(state.outcome, Outcome::kFailed);
  EXPECT_THAT(state.end_reason, HasSubstr("the restart budget of 1"));
}

TEST_F(RebornCoordinatorTest, APartlyStartedGenerationIsReplacedAtNoCost) {
  join(1);
  join(2);
  obey_run(1, to(1).world);
  reborn({.max_restarts = 0});
  pass(6000, {1, 2});
  set_phase(1, AgentPhase::kIdle);
  EXPECT_EQ(to(1).world.generation, 2u);
  EXPECT_EQ(to(1).world.restart_count, 0);
  EXPECT_EQ(state.phase, JobPhase::kRunning);
}

TEST_F(RebornCoordinatorTest, ASleepWhileItListensCostsNobodyTheTimeToSpeak) {
  start_two();
  reborn({});
  tick_after(5100);
  EXPECT_EQ(state.phase, JobPhase::kRecovering);
  hear(1);
  hear(2);
  EXPECT_EQ(state.phase, JobPhase::kRunning);
}

TEST_F(RebornCoordinatorTest, AnOlderGenerationThatFinishedIsNoSuccess) {
  start_two();
  set_phase(1, AgentPhase::kDone);
  set_phase(2, AgentPhase::kDone);
  reborn({.known_generation = 2});
  pass(6000, {1, 2});
  EXPECT_EQ(state.outcome, Outcome::kNone);
  EXPECT_EQ(state.world.generation, 3u);
}

TEST_F(RebornCoordinatorTest, OnlyTellsTheEndThatWasDecided) {
  start_two();
  reborn({.known_outcome = Outcome::kSucceeded, .known_reason = "every rank ended with 0"});
  hear(1);
  EXPECT_EQ(to(1).wish, Wish::kEnd);
  EXPECT_EQ(to(1).outcome, Outcome::kSucceeded);
}

TEST_F(RebornCoordinatorTest, NumbersGenerationsAboveAllThatWereFormed) {
  join(1);
  join(2);
  reborn({.known_generation = 7});
  pass(6000, {1, 2});
  EXPECT_EQ(state.world.generation, 8u);
  EXPECT_EQ(state.phase, JobPhase::kRunning);
}

}  // namespace
}  // namespace shanty::gang
