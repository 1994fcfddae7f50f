#include "telemetry/node_sample.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace shanty {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class NodeSampleTest : public testing::Test {
 protected:
  NodeSampleTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "node-XXXXXX").string();
    root = ::mkdtemp(pattern.data());
  }
  ~NodeSampleTest() override { std::filesystem::remove_all(root); }

  void put(const std::string& path, const std::string& text) {
    const std::string whole = root + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text;
  }

  std::string root;
};

TEST_F(NodeSampleTest, TellsWhatHappenedBetweenTwoLooks) {
  put("/proc/stat", "cpu  100 0 50 800 30 5 5 10 40 0\ncpu0 1 2 3 4\nctxt 5\n");
  put("/proc/self/cgroup", "0::/jobs/one\n");
  put("/sys/fs/cgroup/jobs/one/cpu.stat", "usage_usec 7\nthrottled_usec 1000000\n");
  put("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000000\n");
  put("/proc/net/dev",
      "Inter-|   Receive  |  Transmit\n face |bytes packets\n"
      "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n"
      "  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n");
  put("/proc/meminfo", "MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable:   250 kB\n");
  NodeSampler sampler(root);
  EXPECT_FALSE(sampler.sample(10 * kSecond).has_value()) << "nothing to compare with";

  put("/proc/stat", "cpu  130 10 60 820 40 5 5 30 40 0\n");
  put("/sys/fs/cgroup/jobs/one/cpu.stat", "usage_usec 7\nthrottled_usec 3500000\n");
  put("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7000000\n");
  put("/proc/net/dev",
      "    lo: 9900 1 0 0 0 0 0 0 9900 1 0 0 0 0 0 0\n"
      "  eth0: 6000 1 0 0 0 0 0 0 7000 1 0 0 0 0 0 0\n");
  const auto sample = sampler.sample(20 * kSecond);
  ASSERT_TRUE(sample.has_value());
  EXPECT_EQ(sample->unix_ns, 20 * kSecond);
  EXPECT_DOUBLE_EQ(sample->cpu, 0.5);
  EXPECT_DOUBLE_EQ(sample->iowait, 0.1);
  EXPECT_DOUBLE_EQ(sample->steal, 0.2);
  EXPECT_DOUBLE_EQ(sample->throttled, 0.25);
  EXPECT_DOUBLE_EQ(sample->pressure_cpu, 0.2);
  EXPECT_DOUBLE_EQ(sample->pressure_io, 0) << "not told by this kernel";
  EXPECT_DOUBLE_EQ(sample->memory_available, 0.25);
  EXPECT_DOUBLE_EQ(sample->net_bytes_per_s, 1000);
}

TEST_F(NodeSampleTest, WithoutTheKernelsFilesThereIsNone) {
  NodeSampler sampler(root);
  EXPECT_FALSE(sampler.sample(kSecond).has_value());
  EXPECT_FALSE(sampler.sample(2 * kSecond).has_value());
  put("/proc/stat", "cpu garbage\n");
  EXPECT_FALSE(sampler.sample(3 * kSecond).has_value());
}

TEST_F(NodeSampleTest, LinesAreReadBackAndTornOnesSkipped) {
  const NodeSample sample{.unix_ns = kSecond, .cpu = 0.5, .memory_available = 0.25};
  const std::string line = encode_node_sample(sample);
  put("/samples", line + "\nnonsense\n{\"unix_ns\":-4}\n[1]\n" + line + "\n" + line.substr(0, 20));
  const auto read = read_node_samples(root + "/samples");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[1].unix_ns, kSecond);
  EXPECT_DOUBLE_EQ(read[1].cpu, 0.5);
  EXPECT_TRUE(read_node_samples(root + "/none").empty());
  EXPECT_DOUBLE_EQ(decode_node_sample(R"({"unix_ns":5,"cpu":7e300})")->cpu, 1.0);
}

TEST(NodeSample, ThisNodeCanBeLookedAt) {
  NodeSampler sampler;
  EXPECT_FALSE(sampler.sample(1).has_value());
  const auto sample = sampler.sample(kSecond);
  ASSERT_TRUE(sample.has_value());
  EXPECT_GT(sample->memory_available, 0);
}

}  // namespace
}  // namespace shanty
