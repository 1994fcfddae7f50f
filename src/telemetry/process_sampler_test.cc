#include "telemetry/process_sampler.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fmt/format.h>

#include "os/files.h"

namespace shanty {
namespace {

using ::testing::ElementsAre;

class ProcessSamplerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-proc-XXXXXX";
    root_ = ::mkdtemp(pattern);
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(root_).ok()); }

  void process(int pid, uint64_t ticks, uint64_t pages, char state = 'S') {
    ASSERT_TRUE(make_directories(fmt::format("{}/{}", root_, pid)).ok());
    ASSERT_TRUE(replace_file(fmt::format("{}/{}/stat", root_, pid),
                             fmt::format("{} (py) thon (x) {} 1 1 1 0 -1 0 0 0 0 0 {} {} 0 0 20 0 "
                                         "1 0 5 1000 {} 0 0 0",
                                         pid, state, ticks / 2, ticks - ticks / 2, pages))
                    .ok());
  }
  void thread(int pid, int task, const std::string& children) {
    const std::string directory = fmt::format("{}/{}/task/{}", root_, pid, task);
    ASSERT_TRUE(make_directories(directory).ok());
    ASSERT_TRUE(replace_file(directory + "/children", children).ok());
  }

  std::string root_;
};

TEST_F(ProcessSamplerTest, AddsUpATreeThroughAllThreads) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  process(10, 100, 1);
  thread(10, 10, "11 12 ");
  thread(10, 15, "13 ");
  process(11, 0, 2);
  process(12, 0, 4, 'Z');
  process(13, 0, 8);
  thread(13, 13, "14");
  process(14, 0, 16);
  ProcessSampler sampler(10, root_);
  const auto sample = sampler.sample({0});
  EXPECT_THAT(sampler.pids(), ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(sample.processes, 4);
  EXPECT_EQ(sample.rss_bytes, 27 * page);
  EXPECT_EQ(sample.cpu_cores, 0);
}

TEST_F(ProcessSamplerTest, CpuIsTheTimeSinceTheSampleBefore) {
  const auto ticks_per_s = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  process(10, 5000, 1);
  ProcessSampler sampler(10, root_);
  sampler.sample({0});
  process(10, 5000 + 3 * ticks_per_s, 1);
  EXPECT_DOUBLE_EQ(sampler.sample({2'000'000'000}).cpu_cores, 1.5);
}

TEST_F(ProcessSamplerTest, KeepsAThreadsChildBetweenFullScans) {
  process(10, 0, 1);
  thread(10, 10, "");
  thread(10, 15, "13");
  process(13, 0, 1);
  ProcessSampler sampler(10, root_);
  sampler.sample({0});
  EXPECT_EQ(sampler.sample({1}).processes, 2);
  ASSERT_TRUE(remove_tree(root_ + "/13").ok());
  EXPECT_EQ(sampler.sample({2}).processes, 1);
}

TEST_F(ProcessSamplerTest, AGoneProcessIsNoError) {
  ProcessSampler sampler(10, root_);
  EXPECT_EQ(sampler.sample({0}).processes, 0);
}

TEST(ProcessSamplerHere, SeesThisProcess) {
  ProcessSampler sampler(::getpid());
  EXPECT_GE(sampler.sample({0}).processes, 1);
  EXPECT_GT(sampler.sample({1}).rss_bytes, 100'000U);
}

}  // namespace
}  // namespace shanty
