#include "doctor/run/slow.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/run/robust.h"

namespace shanty {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

// Milliseconds of the parts of a step; a little noise comes with the step's number.
struct Parts {
  uint32_t data = 2;
  uint32_t forward = 30;
  uint32_t backward = 60;
  uint32_t optimizer = 5;
  uint32_t checkpoint = 0;
};

// Each rank's parts are its own; who is early waits in backward, as DDP makes it.
RunFacts run_of(int ranks, uint64_t steps, const std::function<Parts(int, uint64_t)>& parts) {
  RunFacts run{.path = "run"};
  GenerationSteps generation{1, {}};
  for (int rank = 0; rank < ranks; ++rank) generation.ranks.push_back({rank, "r.steps", {}});
  for (uint64_t step = 0; step < steps; ++step) {
    uint32_t latest = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Parts p = parts(rank, step);
      latest = std::max(latest, p.data + p.forward + p.checkpoint + p.backward);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const Parts p = parts(rank, step);
      const uint32_t noise_us =
          static_cast<uint32_t>((step * 7919 + static_cast<uint64_t>(rank) * 104729) % 500);
      StepRecord record{.step = step};
      record.data_us = p.data * 1000;
      record.forward_us = p.forward * 1000;
      record.checkpoint_us = p.checkpoint * 1000;
      record.backward_us = (latest - p.data - p.forward - p.checkpoint) * 1000 + noise_us;
      record.optimizer_us = p.optimizer * 1000;
      record.step_us = (latest + p.optimizer) * 1000 + noise_us;
      record.samples = 8;
      generation.ranks[static_cast<size_t>(rank)].records.push_back(record);
    }
  }
  run.steps.push_back(std::move(generation));
  return run;
}

const Finding* find(const std::vector<Finding>& findings, const std::string& code) {
  for (const Finding& finding : findings) {
    if (finding.code == code) return &finding;
  }
  return nullptr;
}

size_t above_info(const std::vector<Finding>& findings) {
  size_t count = 0;
  for (const Finding& finding : findings) count += finding.severity != Severity::kNote ? 1 : 0;
  return count;
}

TEST(Slow, AHealthyRunHasOnlyItsSummary) {
  const auto findings = diagnose_slow(run_of(4, 200, [](int, uint64_t) { return Parts(); }));
  EXPECT_EQ(above_info(findings), 0U);
  const Finding* summary = find(findings, "PERF108");
  ASSERT_NE(summary, nullptr);
  EXPECT_THAT(summary->message, HasSubstr("on 4 ranks"));
}

TEST(Slow, NamesTheStragglerAndWhatItIsSlowIn) {
  const auto findings = diagnose_slow(run_of(
      4, 200, [](int rank, uint64_t) { return rank == 2 ? Parts{.forward = 55} : Parts(); }));
  const Finding* found = find(findings, "PERF102");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->subject.ranks, ElementsAre(2));
  EXPECT_THAT(found->message, HasSubstr("steadily"));
  EXPECT_THAT(found->message, HasSubstr("its forward takes"));
  EXPECT_THAT(found->message, HasSubstr("from the first steps on"));
}

TEST(Slow, SaysSinceWhenARankIsSlow) {
  const auto findings = diagnose_slow(run_of(4, 400, [](int rank, uint64_t step) {
    return rank == 1 && step >= 250 ? Parts{.data = 60} : Parts();
  }));
  const Finding* found = find(findings, "PERF102");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->subject.ranks, ElementsAre(1));
  EXPECT_THAT(found->message, HasSubstr("its data takes"));
  EXPECT_THAT(found->message, HasSubstr("since about step 2"));
}

// Steps of a second from `kBegan` on; a sample of each node every ten seconds.
constexpr int64_t kBegan = int64_t{1'800'000'000} * 1'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

RunFacts two_nodes_with_samples(const std::function<NodeSample(int node, int64_t second)>& sample) {
  RunFacts run = run_of(4, 400, [](int rank, uint64_t step) {
    return rank == 3 && step >= 250 ? Parts{.forward = 60} : Parts();
  });
  run.info = {.nodes = 2, .slots = 2};
  for (RankSeries& series : run.steps[0].ranks) {
    for (StepRecord& record : series.records) {
      record.end_unix_ns = kBegan + static_cast<int64_t>(record.step) * kSecond;
    }
  }
  for (int node = 0; node < 2; ++node) {
    for (int64_t second = 10; second <= 400; second += 10) {
      run.node_samples[node].push_back(sample(node, second));
      run.node_samples[node].back().unix_ns = kBegan + second * kSecond;
    }
  }
  return run;
}

TEST(Slow, TellsWhatElseChangedOnTheNodeOfAStraggler) {
  const auto findings = diagnose_slow(two_nodes_with_samples([](int node, int64_t second) {
    return NodeSample{.cpu = node == 1 && second > 250 ? 0.97 : 0.31, .memory_available = 0.5};
  }));
  const Finding* found = find(findings, "PERF102");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->message, HasSubstr("on its node CPUs are 9"));
  EXPECT_THAT(found->message, HasSubstr("% busy (31 % before, 31 % on other nodes)"));
  EXPECT_THAT(found->evidence, Contains(Field(&Evidence::file, "run/nodes/node-00001.jsonl")));
}

TEST(Slow, WhatChangedOnAllNodesIsNotTheStragglers) {
  const auto findings = diagnose_slow(two_nodes_with_samples([](int, int64_t second) {
    return NodeSample{.cpu = second > 250 ? 0.97 : 0.31, .memory_available = 0.5};
  }));
  const Finding* found = find(findings, "PERF102");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->message, Not(HasSubstr("on its node")));
}

TEST(Slow, ARankThatIsSlowNowAndThenIsNotSteady) {
  const auto findings = diagnose_slow(run_of(4, 400, [](int rank, uint64_t step) {
    return rank == 3 && step % 10 == 0 ? Parts{.forward = 300} : Parts();
  }));
  const Finding* found = find(findings, "PERF102");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->subject.ranks, ElementsAre(3));
  EXPECT_THAT(found->message, HasSubstr("now and then"));
}

TEST(Slow, RanksThatTakeTurnsAreNoStraggler) {
  const auto findings = diagnose_slow(run_of(4, 400, [](int rank, uint64_t step) {
    return step % 4 == static_cast<uint64_t>(rank) ? Parts{.forward = 60} : Parts();
  }));
  EXPECT_EQ(find(findings, "PERF102"), nullptr);
}

TEST(Slow, FindsThatAllWaitForTheLoader) {
  const auto findings =
      diagnose_slow(run_of(4, 200, [](int, uint64_t) { return Parts{.data = 100}; }));
  const Finding* found = find(findings, "PERF107");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->message, HasSubstr("51 %"));
  EXPECT_EQ(find(findings, "PERF102"), nullptr);
}

TEST(Slow, FindsWhatSavingCosts) {
  const auto findings =
      diagnose_slow(run_of(2, 200, [](int, uint64_t) { return Parts{.checkpoint = 30}; }));
  EXPECT_NE(find(findings, "PERF105"), nullptr);
}

TEST(Slow, FindsTheStepSinceWhichAllIsSlower) {
  const auto findings = diagnose_slow(run_of(
      4, 300, [](int, uint64_t step) { return step >= 180 ? Parts{.forward = 70} : Parts(); }));
  const Finding* found = find(findings, "PERF104");
  ASSERT_NE(found, nullptr);
  EXPECT_THAT(found->message, HasSubstr("what grew is forward"));
  EXPECT_THAT(found->message, HasSubstr("step 18"));
}

TEST(Slow, AFewStepsSayNothing) {
  const auto findings = diagnose_slow(run_of(
      4, 15, [](int rank, uint64_t) { return rank == 2 ? Parts{.forward = 300} : Parts(); }));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].message, HasSubstr("cannot tell"));
  EXPECT_EQ(above_info(findings), 0U);
}

TEST(Slow, ComparesTwoSizesOfAJob) {
  const RunFacts one = run_of(1, 100, [](int, uint64_t) { return Parts(); });
  const RunFacts four = run_of(4, 100, [](int, uint64_t) { return Parts{.backward = 160}; });
  const auto findings = compare_scaling(one, four);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].code, "PERF106");
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_THAT(findings[0].message, HasSubstr("49 % scaling efficiency"));
}

TEST(Robust, AShiftIsFoundWithinItsNoise) {
  std::vector<double> values;
  for (int i = 0; i < 300; ++i) values.push_back((i < 200 ? 1.0 : 1.3) + (i * 37 % 11) * 0.01);
  const auto shift = find_shift(values);
  ASSERT_TRUE(shift);
  EXPECT_NEAR(static_cast<double>(shift->index), 200, 4);
  EXPECT_NEAR(shift->after - shift->before, 0.3, 0.02);
}

TEST(Robust, NoiseSpikesAndSlowDriftsAreNoShift) {
  std::vector<double> noise;
  std::vector<double> spikes;
  for (int i = 0; i < 300; ++i) {
    noise.push_back(1 + (i * 7919 % 100) * 0.005);
    spikes.push_back(i % 20 == 0 ? 9.0 : 1.0);
  }
  EXPECT_FALSE(find_shift(noise));
  EXPECT_FALSE(find_shift(spikes));
  EXPECT_FALSE(find_shift(std::vector<double>(kMinShiftValues - 1, 1.0)));
}

}  // namespace
}  // namespace shanty
