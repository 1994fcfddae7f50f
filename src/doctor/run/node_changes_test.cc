#include "doctor/run/node_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SampleMeans means(const NodeSample& sample) {
  NodeSample timed = sample;
  timed.unix_ns = 1;
  return means_of({&timed, 1}, 0, 1);
}

TEST(NodeChanges, AreMeansOfTheTimeAskedFor) {
  std::vector<NodeSample> samples;
  for (int64_t at = 10; at <= 50; at += 10) {
    samples.push_back({.unix_ns = at, .cpu = static_cast<double>(at) / 100});
  }
  const SampleMeans some = means_of(samples, 10, 40);
  EXPECT_EQ(some.samples, 3U);
  EXPECT_EQ(some.first_line, 2U);
  EXPECT_DOUBLE_EQ(some.mean.cpu, 0.3);
}

TEST(NodeChanges, NeedBothToBeBetter) {
  const SampleMeans now = means({.steal = 0.3, .memory_available = 0.5});
  const SampleMeans calm = means({.memory_available = 0.5});
  EXPECT_THAT(
      node_changes(now, calm, calm),
      ElementsAre("the hypervisor takes 30 % of the CPUs (0 % before, 0 % on other nodes)"));
  EXPECT_THAT(node_changes(now, calm, {}),
              ElementsAre("the hypervisor takes 30 % of the CPUs (0 % before)"));
  EXPECT_THAT(node_changes(now, {}, calm),
              ElementsAre("the hypervisor takes 30 % of the CPUs (0 % on other nodes)"));
  EXPECT_THAT(node_changes(now, now, calm), IsEmpty());
  EXPECT_THAT(node_changes(now, calm, now), IsEmpty());
  EXPECT_THAT(node_changes(now, {}, {}), IsEmpty());
}

TEST(NodeChanges, MemoryCountsOnlyWhereItIsShort) {
  const SampleMeans plenty = means({.memory_available = 0.9});
  EXPECT_THAT(node_changes(means({.memory_available = 0.4}), plenty, {}), IsEmpty());
  EXPECT_THAT(node_changes(means({.memory_available = 0.04}), plenty, {}),
              ElementsAre("4 % of the memory is available (90 % before)"));
}

}  // namespace
}  // namespace shanty
