#include "run/run_dir.h"

#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNs = 1'000'000'000;

class RunDirTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-run-XXXXXX";
    state_ = ::mkdtemp(pattern);
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(state_).ok()); }

  RunDir make(const std::string& id, const std::string& job, int64_t started_s) {
    auto run = RunDir::create(runs_dir(state_) + "/" + id,
                              {.run_id = id, .job_name = job, .started_unix_ns = started_s * kNs});
    EXPECT_TRUE(run.ok()) << run.error().message;
    return *run;
  }

  std::string state_;
};

TEST_F(RunDirTest, KeepsWhatTheRunIs) {
  RunInfo info{.run_id = "id",
               .job_name = "train",
               .command = {"shanty", "run", "a b.py"},
               .working_directory = "/w",
               .host = "h",
               .nodes = 2,
               .slots = 4,
               .started_unix_ns = 1234567890123456789};
  ASSERT_TRUE(RunDir::create(state_ + "/r", info).ok());
  const auto run = RunDir::open(state_ + "/r/");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->path(), state_ + "/r");
  EXPECT_EQ(run->info().command, info.command);
  EXPECT_EQ(run->info().world_size(), 8);
  EXPECT_EQ(run->info().started_unix_ns, info.started_unix_ns);
}

TEST_F(RunDirTest, RefusesAnotherRunsDirectoryAndJoinsItsOwn) {
  make("one", "train", 1);
  EXPECT_TRUE(RunDir::create(runs_dir(state_) + "/one", {.run_id = "one"}).ok());
  const auto other = RunDir::create(runs_dir(state_) + "/one", {.run_id = "two"});
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("already holds the run one"));
}

TEST_F(RunDirTest, RefusesADirectoryOfSomethingElse) {
  ASSERT_TRUE(replace_file(state_ + "/thesis.tex", "x").ok());
  const auto run = RunDir::create(state_, {.run_id = "one"});
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message, HasSubstr("thesis.tex"));
}

TEST_F(RunDirTest, NodesOfOneJobMayMakeItAtTheSameTime) {
  for (int round = 0; round < 100; ++round) {
    const std::string path = fmt::format("{}/{}", state_, round);
    std::vector<std::string> errors(3);
    std::vector<std::thread> nodes;
    for (std::string& error : errors) {
      nodes.emplace_back([&] {
        const auto run = RunDir::create(path, {.run_id = "one"});
        if (run.ok()) return;
        error = run.error().message;
      });
    }
    for (std::thread& node : nodes) node.join();
    EXPECT_THAT(errors, Each(IsEmpty()));
  }
}

TEST_F(RunDirTest, IsRunningWhileALockIsHeld) {
  const RunDir run = make("one", "train", 1);
  EXPECT_FALSE(run.is_running());
  {
    const auto lock = SharedLock::take(run.lock());
    ASSERT_TRUE(lock.ok());
    EXPECT_TRUE(run.is_running());
  }
  EXPECT_FALSE(run.is_running());
}

TEST_F(RunDirTest, FindsGenerationsAndRanksAmongOtherFiles) {
  const RunDir run = make("one", "train", 1);
  ASSERT_TRUE(run.make_generation(2).ok());
  ASSERT_TRUE(run.make_generation(10000).ok());
  ASSERT_TRUE(make_directories(run.logs_dir() + "/gen-x").ok());
  ASSERT_TRUE(replace_file(run.log(2, 11), "").ok());
  ASSERT_TRUE(replace_file(run.log(2, 3), "").ok());
  ASSERT_TRUE(replace_file(run.log_index(2, 4), "").ok());
  EXPECT_THAT(run.generations("logs"), ElementsAre(2, 10000));
  EXPECT_THAT(run.ranks("logs", 2, ".log"), ElementsAre(3, 11));
}

TEST_F(RunDirTest, FindsARunByIdPrefixJobPathOrAge) {
  make("a-1", "train", 10);
  make("a-2", "train", 30);
  make("b-1", "eval", 20);
  EXPECT_EQ(find_run(state_, "")->info().run_id, "a-2");
  EXPECT_EQ(find_run(state_, "train")->info().run_id, "a-2");
  EXPECT_EQ(find_run(state_, "b")->info().run_id, "b-1");
  EXPECT_EQ(find_run(state_, "a-1")->info().run_id, "a-1");
  EXPECT_EQ(find_run(state_, runs_dir(state_) + "/b-1")->info().run_id, "b-1");
  EXPECT_THAT(find_run(state_, "a-").error().message, HasSubstr("begins the ids of 2 runs"));
  EXPECT_THAT(find_run(state_, "zzz").error().message, HasSubstr("the newest run is a-2"));
}

TEST_F(RunDirTest, LeavesUnreadableRunsOutOfTheList) {
  make("good", "train", 1);
  ASSERT_TRUE(make_directories(runs_dir(state_) + "/torn").ok());
  ASSERT_TRUE(replace_file(runs_dir(state_) + "/torn/run.json", "{\"format\":1,\"run").ok());
  EXPECT_EQ(list_runs(state_).size(), 1U);
}

TEST(RunId, IsAFileNameWhateverTheJobIsCalled) {
  EXPECT_EQ(make_run_id("resnet train/../x", 1795975445LL * kNs, 0x3fa9),
            "20261129-180405-resnet-train-..-x-3fa9");
}

}  // namespace
}  // namespace shanty
