#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "wire/random_message.h"

namespace shanty::wire {
namespace {

constexpr uint64_t kSeeds = 400;

void expect_same_number(double a, double b) {
  EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << a << " " << b;
}

void expect_same(const gang::WorkerExit& a, const gang::WorkerExit& b) {
  EXPECT_EQ(a.local_rank, b.local_rank);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.exit_code, b.exit_code);
  EXPECT_EQ(a.signal, b.signal);
  EXPECT_EQ(a.requested, b.requested);
  EXPECT_EQ(a.out_of_memory, b.out_of_memory);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.exited_unix_ns, b.exited_unix_ns);
  EXPECT_EQ(a.error_unix_ns, b.error_unix_ns);
  EXPECT_EQ(a.error, b.error);
}

void expect_same(const gang::Report& a, const gang::Report& b) {
  EXPECT_EQ(a.incarnation, b.incarnation);
  EXPECT_EQ(a.seq, b.seq);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.node, b.node);
  EXPECT_EQ(a.wanted_node_rank, b.wanted_node_rank);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.address, b.address);
  EXPECT_EQ(a.free_port, b.free_port);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.world, b.world);
  ASSERT_EQ(a.exits.size(), b.exits.size());
  for (size_t i = 0; i < a.exits.size(); ++i) expect_same(a.exits[i], b.exits[i]);
  EXPECT_EQ(a.leaving, b.leaving);
  EXPECT_EQ(a.leave_reason, b.leave_reason);
}

void expect_same(const RankTelemetry& a, const RankTelemetry& b) {
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.node_rank, b.node_rank);
  EXPECT_EQ(a.local_rank, b.local_rank);
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.alive, b.alive);
  EXPECT_EQ(a.hooked, b.hooked);
  EXPECT_EQ(a.hooks_off_reason, b.hooks_off_reason);
  EXPECT_EQ(a.has_step, b.has_step);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.total_steps, b.total_steps);
  EXPECT_EQ(a.phase, b.phase);
  EXPECT_EQ(a.phase_since_unix_ns, b.phase_since_unix_ns);
  EXPECT_EQ(a.last_step_unix_ns, b.last_step_unix_ns);
  for (const auto field :
       {&RankTelemetry::loss, &RankTelemetry::samples_per_s, &RankTelemetry::step_s,
        &RankTelemetry::data_s, &RankTelemetry::forward_s, &RankTelemetry::backward_s,
        &RankTelemetry::optimizer_s, &RankTelemetry::checkpoint_s, &RankTelemetry::collective_s,
        &RankTelemetry::cpu_cores}) {
    expect_same_number(a.*field, b.*field);
  }
  EXPECT_EQ(a.steps_done, b.steps_done);
  EXPECT_EQ(a.missed_records, b.missed_records);
  EXPECT_EQ(a.checkpoints_saved, b.checkpoints_saved);
  EXPECT_EQ(a.rss_bytes, b.rss_bytes);
  EXPECT_EQ(a.processes, b.processes);
}

TEST(RoundTrip, EveryFieldOfAnAgentMessageArrives) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const AgentMessage sent = RandomMessage(seed).agent();
    const auto got = decode_agent_message(encode(sent));
    ASSERT_TRUE(got.ok()) << got.error().message;
    expect_same(sent.report, got->report);
    ASSERT_EQ(sent.ranks.size(), got->ranks.size());
    for (size_t i = 0; i < sent.ranks.size(); ++i) expect_same(sent.ranks[i], got->ranks[i]);
    EXPECT_EQ(sent.facts_json, got->facts_json);
    EXPECT_EQ(sent.notes_json, got->notes_json);
    if (HasFailure()) return;
  }
}

TEST(RoundTrip, EveryFieldOfACoordinatorMessageArrives) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const gang::Directive sent = RandomMessage(seed).coordinator().directive;
    const auto decoded = decode_coordinator_message(encode(CoordinatorMessage{sent}));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    const gang::Directive& got = decoded->directive;
    EXPECT_EQ(sent.epoch, got.epoch);
    EXPECT_EQ(sent.seq, got.seq);
    EXPECT_EQ(sent.to_incarnation, got.to_incarnation);
    EXPECT_EQ(sent.wish, got.wish);
    EXPECT_EQ(sent.world, got.world);
    EXPECT_EQ(sent.reason, got.reason);
    EXPECT_EQ(sent.outcome, got.outcome);
    EXPECT_EQ(sent.stop_signal, got.stop_signal);
    if (HasFailure()) return;
  }
}

AgentMessage eight_busy_ranks() {
  AgentMessage message;
  message.report.incarnation = ~uint64_t{0};
  message.report.node = "gpu-node-017.cluster.example";
  message.report.address = "10.128.255.255";
  message.report.world.generation = 3;
  message.report.world.master_addr = "gpu-node-000.cluster.example";
  for (int i = 0; i < 8; ++i) {
    message.ranks.push_back({.rank = 1000 + i,
                             .pid = 4194303,
                             .generation = 3,
                             .alive = true,
                             .hooked = true,
                             .has_step = true,
                             .step = 1234567,
                             .total_steps = 9999999,
                             .phase = "checkpoint",
                             .phase_since_unix_ns = 1764439000123456789,
                             .last_step_unix_ns = 1764439000123456789,
                             .loss = 2.718281828459045,
                             .samples_per_s = 1234.5678901234567,
                             .step_s = 0.12345678901234568,
                             .data_s = 0.012345678901234568,
                             .forward_s = 0.03456789012345678,
                             .backward_s = 0.05678901234567891,
                             .optimizer_s = 0.00987654321098,
                             .checkpoint_s = 0.0001234567890123,
                             .collective_s = 0.0123456789,
                             .steps_done = 1234567,
                             .rss_bytes = 68719476736,
                             .cpu_cores = 7.987654321098765,
                             .processes = 9});
  }
  return message;
}

TEST(RoundTrip, AMessageForEightRanksIsSmall) {
  EXPECT_LT(encode(eight_busy_ranks()).size(), 8192u);
}

TEST(RoundTrip, TheLargestListsWithTheLongestTextsStillFit) {
  const std::string text(10000, '\x01');
  const std::string large_object = R"({"x":")" + std::string(kMaxNoteBytes - 8, 'x') + R"("})";
  AgentMessage message;
  message.report.incarnation = ~uint64_t{0};
  message.report.world.history.assign(
      100, {.node = text, .reason = text, .first_error = text, .signature = text});
  message.report.exits.assign(
      5000, {.rank = kMaxRank, .exit_code = -2000000000, .step = 1, .phase = text, .error = text});
  message.ranks.assign(2000, eight_busy_ranks().ranks[0]);
  for (auto& rank : message.ranks) rank.hooks_off_reason = text;
  message.notes_json.assign(100, large_object);
  const std::string frame = encode(message);
  EXPECT_LE(frame.size(), kMaxMessageBytes);
  const auto got = decode_agent_message(frame);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->report.exits.size(), kMaxExits);
  EXPECT_EQ(got->report.world.history.size(), gang::kMaxHistory);
  EXPECT_EQ(got->ranks.size(), kMaxRanksPerNode);
  EXPECT_EQ(got->notes_json.size(), kMaxNotes);
}

TEST(RoundTrip, ExitsKeepTheFirstAndHistoryAndNotesTheLast) {
  AgentMessage message;
  message.report.incarnation = 1;
  for (int i = 0; i < 5000; ++i) message.report.exits.push_back({.rank = i});
  for (int i = 0; i < 100; ++i) {
    message.report.world.history.push_back({.rank = i});
    message.notes_json.push_back("{\"n\":" + std::to_string(i) + "}");
  }
  const auto got = decode_agent_message(encode(message));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->report.exits.front().rank, 0);
  EXPECT_EQ(got->report.world.history.back().rank, 99);
  EXPECT_EQ(got->notes_json.back(), R"({"n":99})");
}

TEST(RoundTrip, TextThatIsNotUtf8OrTooLongArrivesRepairedAndCutBetweenCharacters) {
  AgentMessage message;
  message.report.incarnation = 1;
  message.report.node = "a\xff\xc3(\xed\xa0\x80z";
  for (int i = 0; i < 3000; ++i) message.report.leave_reason += "é";
  const auto got = decode_agent_message(encode(message));
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->report.node, "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
  EXPECT_EQ(got->report.leave_reason.size(), gang::kMaxTextBytes);
  EXPECT_EQ(got->report.leave_reason, message.report.leave_reason.substr(0, gang::kMaxTextBytes));
}

TEST(RoundTrip, FactsAndNotesThatAreNoObjectsAreLeftOut) {
  AgentMessage message;
  message.report.incarnation = 1;
  message.facts_json = "{\"a\":";
  message.notes_json = {"[]",
                        "{}",
                        "null",
                        "x",
                        "{\"deep\":[[[[[[[[1]]]]]]]]}",
                        "{\"big\":\"" + std::string(kMaxNoteBytes, 'x') + "\"}"};
  const auto got = decode_agent_message(encode(message));
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->facts_json, "");
  EXPECT_THAT(got->notes_json, testing::ElementsAre("{}"));
}

}  // namespace
}  // namespace shanty::wire
