#include "telemetry/report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace shanty {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1'000'000 * kSecond;

int64_t at(double seconds) {
  return kStart + static_cast<int64_t>(seconds * static_cast<double>(kSecond));
}

Event event(double seconds, std::string_view kind, uint64_t generation = 0,
            std::string extra = "") {
  return {.unix_ns = at(seconds),
          .source = "coordinator",
          .kind = std::string(kind),
          .generation = generation,
          .text = "text",
          .extra_json = std::move(extra)};
}

Event failure(double seconds, uint64_t generation, int rank = 1) {
  Event out = event(seconds, event_kind::kGenerationEnded, generation,
                    fmt::format(R"({{"generation":{},"rank":{},"node_rank":0,"node":"n","reason":)"
                                R"("killed by SIGKILL","first_error":"E","step":9,"unix_ns":{}}})",
                                generation, rank, at(seconds)));
  out.rank = rank;
  return out;
}

Event ended(double seconds, const std::string& outcome) {
  return event(seconds, event_kind::kEnded, 0,
               fmt::format(R"({{"outcome":"{}","reason":"because"}})", outcome));
}

// Steps of one second each, the first of which begins at `from` seconds.
RankSteps steps(uint64_t generation, double from, int count, int64_t first_named = -1) {
  RankSteps out{.generation = generation};
  for (int i = 0; i < count; ++i) {
    StepRecord record;
    record.step = static_cast<uint64_t>((first_named < 0 ? 0 : first_named) + i);
    record.end_unix_ns = at(from + i + 1);
    record.step_us = 1'000'000;
    record.loss = static_cast<float>(10 - i);
    record.flags = first_named < 0 ? 0 : StepRecord::kNamedByScript;
    out.records.push_back(record);
  }
  return out;
}

double loss(const Report& report, std::string_view cause) {
  for (const ReportLoss& one : report.losses) {
    if (one.cause == cause) return one.seconds;
  }
  ADD_FAILURE() << "no cause " << cause;
  return -1;
}

Report account_for(std::vector<Event> events, std::vector<RankSteps> all_steps,
                   bool running = false, double now = 1000) {
  ReportInput input;
  input.info = {
      .run_id = "r", .job_name = "train", .nodes = 2, .slots = 1, .started_unix_ns = kStart};
  input.run_directory = "/runs/r";
  input.running = running;
  input.now_unix_ns = at(now);
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.unix_ns < b.unix_ns; });
  input.events = std::move(events);
  input.steps = std::move(all_steps);
  input.total_samples = 640;
  const Report report = account(input);
  double sum = report.useful_time_s;
  for (const ReportLoss& one : report.losses) {
    EXPECT_GE(one.seconds, 0) << one.cause;
    sum += one.seconds;
  }
  EXPECT_GE(report.useful_time_s, 0);
  EXPECT_NEAR(sum, report.wall_time_s, 1e-6);
  return report;
}

using namespace event_kind;  // NOLINT: names of the table

TEST(Account, AHealthyRunLosesItsStartAndItsEnd) {
  const Report report = account_for({event(0, kJobStarted), event(1, kWorldFormed, 1),
                                     event(1, kWorkersStarted, 1), ended(30, "succeeded")},
                                    {steps(1, 5, 20)});
  EXPECT_EQ(report.outcome, "succeeded");
  EXPECT_EQ(report.generations, 1U);
  EXPECT_DOUBLE_EQ(report.wall_time_s, 30);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kStartUp), 5);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kShutdown), 5);
  EXPECT_DOUBLE_EQ(report.useful_time_s, 20);
  EXPECT_EQ(report.steps, 20U);
  EXPECT_DOUBLE_EQ(report.samples_per_s, 32);
  EXPECT_EQ(report.final_loss, 10 - 19);
}

TEST(Account, WaitingForNodesIsItsOwnCause) {
  const Report report = account_for(
      {event(1, kWaiting), event(2, kWaiting), event(4, kWorldFormed, 1), ended(30, "succeeded")},
      {steps(1, 5, 20)});
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kWaiting), 3);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kStartUp), 2);
}

TEST(Account, ALostGenerationWithoutCheckpointIsRepeatedWork) {
  const Report report = account_for({event(0, kWorkersStarted, 1), failure(12.5, 1),
                                     event(13, kWorkersStarted, 2), ended(40, "succeeded")},
                                    {steps(1, 2, 10), steps(2, 15, 20)});
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kStartUp), 2);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kRepeated), 10.5);  // 10 steps and half a one
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kRestart), 2.5);
  EXPECT_DOUBLE_EQ(report.useful_time_s, 20);
  EXPECT_EQ(report.steps, 20U);
  EXPECT_EQ(report.repeated_steps, 10U);
  ASSERT_EQ(report.failures.size(), 1U);
  EXPECT_EQ(report.failures[0].rank, 1);
  EXPECT_EQ(report.failures[0].reason, "killed by SIGKILL");
  EXPECT_EQ(report.failures[0].step, 9U);
}

TEST(Account, StepsBeforeTheLastSaveAreKept) {
  const Report told = account_for({failure(12, 1), event(9, kCheckpointSaved, 1),
                                   event(13, kWorkersStarted, 2), ended(40, "succeeded")},
                                  {steps(1, 2, 10), steps(2, 15, 20)});
  EXPECT_EQ(told.repeated_steps, 3U);  // those that ended at 10, 11 and 12
  EXPECT_EQ(told.checkpoints_saved, 1U);

  RankSteps with_save = steps(1, 2, 10);
  with_save.records[7].checkpoint_us = 250'000;
  const Report seen =
      account_for({failure(12, 1), event(13, kWorkersStarted, 2), ended(40, "succeeded")},
                  {with_save, steps(2, 15, 20)});
  EXPECT_EQ(seen.repeated_steps, 3U);
}

TEST(Account, NamedStepsTellWhatWasDoneAgain) {
  const Report report =
      account_for({failure(12, 1), event(13, kWorkersStarted, 2), ended(40, "succeeded")},
                  {steps(1, 2, 10, 100), steps(2, 15, 20, 106)});  // 100-109, then 106-125
  EXPECT_EQ(report.repeated_steps, 4U);
  EXPECT_EQ(report.steps, 26U);
  EXPECT_EQ(report.last_step, 125U);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kRepeated), 4);
}

TEST(Account, CheckpointTimeIsTakenFromUsefulSteps) {
  RankSteps one = steps(1, 5, 20);
  one.records[3].checkpoint_us = 500'000;
  one.records[9].checkpoint_us = 5'000'000;  // longer than its step: believed up to it
  const Report report = account_for({ended(25, "succeeded")}, {one});
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kCheckpoints), 1.5);
  EXPECT_DOUBLE_EQ(report.useful_time_s, 18.5);
}

TEST(Account, FailuresBeforeTheFirstStepAreRestarts) {
  const Report report = account_for({event(1, kWorkersStarted, 1), failure(3, 1),
                                     event(4, kWorkersStarted, 2), ended(30, "succeeded")},
                                    {steps(2, 10, 20)});
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kStartUp), 3);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kRestart), 7);
}

TEST(Account, GenerationsThatNeverCameToAStepAreRestarts) {
  const Report report = account_for(
      {event(0, kWorkersStarted, 1), failure(10, 1), event(11, kWorkersStarted, 2), failure(14, 2),
       event(15, kWorkersStarted, 3), failure(18, 3), ended(20, "failed")},
      {steps(1, 2, 8)});
  EXPECT_EQ(report.generations, 3U);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kRestart), 8);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kShutdown), 2);
}

TEST(Account, AScriptWithoutStepsIsUsefulButForItsRestarts) {
  const Report report = account_for({event(1, kWorkersStarted, 1), failure(10, 1),
                                     event(13, kWorkersStarted, 2), ended(20, "succeeded")},
                                    {});
  EXPECT_FALSE(report.has_steps);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kStartUp), 1);
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kRestart), 3);
  EXPECT_DOUBLE_EQ(report.useful_time_s, 16);
}

TEST(Account, AJobThatNeverFormedOnlyWaited) {
  const Report report = account_for({event(1, kWaiting), ended(20, "stopped")}, {});
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kWaiting), 19);
  EXPECT_DOUBLE_EQ(report.useful_time_s, 0);
}

TEST(Account, ARunWithoutAnEndDied) {
  Event seen{.unix_ns = at(8),
             .source = "node-1",
             .kind = std::string(kWorkerFailed),
             .generation = 1,
             .rank = 1,
             .node_rank = 1,
             .text = "exited with code 3"};
  const Report report = account_for({event(0, kWorkersStarted, 1), seen}, {steps(1, 2, 10)});
  EXPECT_EQ(report.outcome, "died");
  EXPECT_EQ(report.reason, "no end was recorded");
  EXPECT_DOUBLE_EQ(report.wall_time_s, 12);
  ASSERT_EQ(report.failures.size(), 1U);
  EXPECT_EQ(report.failures[0].reason, "exited with code 3");
}

TEST(Account, ARunningJobHasNoShutdown) {
  const Report report = account_for({event(0, kWorkersStarted, 1)}, {steps(1, 2, 10)}, true, 15);
  EXPECT_EQ(report.outcome, "running");
  EXPECT_DOUBLE_EQ(loss(report, loss_cause::kShutdown), 0);
  EXPECT_DOUBLE_EQ(report.useful_time_s, 13);
}

TEST(Account, TheCoordinatorsEndIsBelievedBeforeTheCommands) {
  Event command = ended(31, "failed");
  command.source = "command-0";
  EXPECT_EQ(account_for({ended(30, "succeeded"), command}, {}).outcome, "succeeded");
  EXPECT_EQ(account_for({command}, {}).outcome, "failed");
}

TEST(Account, ClocksThatDisagreeGiveNoNegativeTimes) {
  account_for({event(50, kWorkersStarted, 1), failure(-5, 1), event(3, kWorkersStarted, 2),
               event(2, kWaiting), event(1, kWorldFormed, 2), ended(20, "succeeded")},
              {steps(1, 30, 10), steps(2, -8, 20)});
  account_for({ended(-20, "succeeded")}, {steps(1, 30, 10)});
  account_for({}, {});
}

TEST(Account, CountsSavesByProcessAndCollectsNotes) {
  Event off = event(3, kHooksOff);
  off.text = "hooks are off: no torch";
  const Report report = account_for(
      {event(1, kCheckpointSaved, 1, R"({"count":1})"),
       event(2, kCheckpointSaved, 1, R"({"count":4})"),
       event(2, kCheckpointSaved, 2, R"({"count":2})"), off, off, ended(9, "succeeded")},
      {});
  EXPECT_EQ(report.checkpoints_saved, 6U);
  EXPECT_THAT(report.notes, ElementsAre("hooks are off: no torch"));
}

TEST(ReportJson, SurvivesTheWayThereAndBackWithUnknowns) {
  Report report = account_for(
      {failure(12, 1, -1), event(13, kWorkersStarted, 2), ended(40, "failed")}, {steps(1, 2, 10)});
  report.final_loss = std::numeric_limits<double>::quiet_NaN();
  const std::string text = encode_report(report);
  EXPECT_THAT(text, HasSubstr("\"final_loss\": null"));
  EXPECT_THAT(text, HasSubstr("\"rank\": null"));
  const auto back = decode_report(text);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(encode_report(*back), text);
  EXPECT_TRUE(std::isnan(back->final_loss));
  EXPECT_FALSE(decode_report("{\"format\":99}").ok());
}

}  // namespace
}  // namespace shanty
