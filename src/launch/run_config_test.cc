#include "launch/run_config.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Options for a program that exists everywhere.
RunOptions program() { return {.target = "true", .no_python = true}; }

RunConfig config(const RunOptions& options) {
  auto made = make_run_config(options);
  if (auto* found = std::get_if<RunConfig>(&made)) return std::move(*found);
  ADD_FAILURE() << std::get<ConfigError>(made).message;
  return {};
}

ConfigError error(const RunOptions& options) {
  const auto made = make_run_config(options);
  const auto* found = std::get_if<ConfigError>(&made);
  EXPECT_NE(found, nullptr);
  return found != nullptr ? *found : ConfigError{};
}

TEST(RunConfig, AlonePlaysAllNodesHere) {
  RunOptions o = program();
  o.nnodes = "3:3";
  o.nproc_per_node = "2";
  const RunConfig c = config(o);
  EXPECT_FALSE(c.several_machines);
  EXPECT_THAT(c.local_nodes, ElementsAre(0, 1, 2));
  EXPECT_EQ(c.slots, 2);
  EXPECT_EQ(c.master_addr, "localhost");
  EXPECT_EQ(c.master_port, 0);
  EXPECT_THAT(c.command, ElementsAre("true"));
}

TEST(RunConfig, AnEndpointMakesItOneNodeOfMany) {
  RunOptions o = program();
  o.nnodes = "2";
  o.rdzv_endpoint = "far.example:1234";
  const RunConfig c = config(o);
  EXPECT_TRUE(c.several_machines);
  EXPECT_THAT(c.local_nodes, ElementsAre(-1));
  EXPECT_EQ(c.endpoint.host, "far.example");
  EXPECT_EQ(c.endpoint.port, 1234);
  EXPECT_FALSE(c.may_host);
  EXPECT_EQ(c.elastic_run_id, "none");
  o.rdzv_endpoint = "127.0.0.1";
  EXPECT_EQ(config(o).endpoint.port, 29400);
  EXPECT_TRUE(config(o).may_host);
  o.standalone = true;
  EXPECT_FALSE(config(o).several_machines);
}

TEST(RunConfig, AMasterAddressNeedsANodeRankAndTheCoordinatorListensBesideIt) {
  RunOptions o = program();
  o.nnodes = "2";
  o.master_addr = "10.0.0.1";
  EXPECT_THAT(error(o).message, HasSubstr("--node-rank"));
  o.node_rank = 1;
  const RunConfig c = config(o);
  EXPECT_EQ(c.master_port, 29500);
  EXPECT_EQ(c.endpoint.port, 29501);
  EXPECT_FALSE(c.may_host);
  o.node_rank = 0;
  EXPECT_TRUE(config(o).may_host);
}

TEST(RunConfig, NumbersOutOfRangeAndImpossibleCombinationsAreUsageErrors) {
  const auto refused = [](const std::function<void(RunOptions&)>& change) {
    RunOptions o = program();
    o.nnodes = "2";
    change(o);
    const auto made = make_run_config(o);
    const auto* found = std::get_if<ConfigError>(&made);
    return found != nullptr && found->exit_code == 2;
  };
  for (const char* nodes : {"0", "-1", "2:1", "1:2", "x", "2x", "2:", ":2", "100001", "257"}) {
    EXPECT_TRUE(refused([&](RunOptions& o) { o.nnodes = nodes; })) << nodes;
  }
  for (const char* slots : {"0", "-1", "1025", "gpus", "2 ", "99999999999999999999"}) {
    EXPECT_TRUE(refused([&](RunOptions& o) { o.nproc_per_node = slots; })) << slots;
  }
  for (const int rank : {-1, 2}) {
    EXPECT_TRUE(refused([&](RunOptions& o) { o.node_rank = rank; })) << rank;
  }
  for (const int port : {0, -1, 65535}) {  // the coordinator takes the next one
    EXPECT_TRUE(refused([&](RunOptions& o) { o.master_port = port; })) << port;
  }
  for (const char* endpoint : {"host:0", "host:65536", "host:x", ":1234"}) {
    EXPECT_TRUE(refused([&](RunOptions& o) { o.rdzv_endpoint = endpoint; })) << endpoint;
  }
  EXPECT_TRUE(refused([](RunOptions& o) { o.rdzv_backend = "etcd"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.max_restarts = -1; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.module = true; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.rdzv_conf = "timeout"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.rdzv_conf = "join_timeout=0"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.shutdown_timeout = -1; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.redirects = "4"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.redirects = "0:4"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.tee = "0:"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.local_ranks_filter = "0,x"; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.injects = {"kill:rank=2"}; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o.injects = {"netcut:node=2"}; }));
  EXPECT_TRUE(refused([](RunOptions& o) { o = {.target = "/no/such/script.py"}; }));
}

TEST(RunConfig, RanksPerNodeMayBeNamed) {
  RunOptions o = program();
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  o.nproc_per_node = "cpu";
  EXPECT_EQ(config(o).slots, cpus);
  o.nproc_per_node = "auto";
  EXPECT_GE(config(o).slots, 1);
}

TEST(RunConfig, RestartsAreThoseOfProcessFaultsUntilANumberIsSaid) {
  RunOptions o = program();
  EXPECT_FALSE(config(o).restart_on_exit);
  EXPECT_EQ(config(o).elastic_max_restarts, 0);
  o.max_restarts = 3;
  const RunConfig c = config(o);
  EXPECT_TRUE(c.restart_on_exit);
  EXPECT_EQ(c.max_restarts, 3);
  EXPECT_EQ(c.elastic_max_restarts, 3);
  EXPECT_EQ(c.restart_window_s, 0);  // for the whole job
}

// "both", "out", "err" or "-" for each local rank.
std::vector<std::string> shown(const RunOptions& options) {
  std::vector<std::string> words;
  for (const Streams& s : config(options).shown) {
    words.emplace_back(s.out && s.err ? "both" : s.out ? "out" : s.err ? "err" : "-");
  }
  return words;
}

TEST(RunConfig, RedirectedStreamsAreHiddenUnlessTeed) {
  RunOptions o = program();
  EXPECT_THAT(shown(o), ElementsAre("both"));
  o.redirects = "3";
  o.tee = "1";
  EXPECT_THAT(shown(o), ElementsAre("out"));
  EXPECT_THAT(config(o).direct_log_ranks, IsEmpty());
  o.nproc_per_node = "3";
  o.tee = "0:3,2:2";
  EXPECT_THAT(shown(o), ElementsAre("both", "-", "err"));
  EXPECT_THAT(config(o).direct_log_ranks, ElementsAre(1));
  o.redirects = "0:3,1:1";
  o.tee = "";
  EXPECT_THAT(shown(o), ElementsAre("-", "err", "both"));
}

TEST(RunConfig, TheFilterLeavesOnlyItsRanksOnTheTerminal) {
  RunOptions o = program();
  o.nproc_per_node = "3";
  o.local_ranks_filter = "1,2,7";
  EXPECT_THAT(shown(o), ElementsAre("-", "both", "both"));
  o.redirects = "2:3";
  EXPECT_THAT(shown(o), ElementsAre("-", "both", "-"));
}

TEST(RunConfig, IntoOneLogOnlyTheFirstNodePrints) {
  RunOptions o = program();
  o.nnodes = "2";
  o.master_addr = "node0";
  o.one_log = true;
  o.node_rank = 0;
  EXPECT_THAT(shown(o), ElementsAre("both"));
  EXPECT_FALSE(config(o).quiet);
  o.node_rank = 1;
  EXPECT_THAT(shown(o), ElementsAre("-"));
  EXPECT_TRUE(config(o).quiet);
  EXPECT_THAT(config(o).direct_log_ranks, IsEmpty());
}

TEST(RunConfig, JoinTimeoutsOfTorchrunAreKeptAndOtherKeysPassedOver) {
  RunOptions o = program();
  o.rdzv_conf = "is_host=1,join_timeout=7,close_timeout=x";
  EXPECT_EQ(config(o).join_limit_s, 7);
}

TEST(JobEnvironment, SaysWhereAndHowOftenCheckpointsAreSaved) {
  Job job;
  EXPECT_THAT(job_environment(job), IsEmpty());
  job.checkpoint = {
      .mount = "/mnt", .dir = "runs/1", .every_s = 90.5, .keep = 5, .milestones = 1000};
  EXPECT_THAT(job_environment(job),
              ElementsAre("SHANTY_CKPT_DIR=/mnt/runs/1", "SHANTY_CKPT_KEEP=5",
                          "SHANTY_CKPT_EVERY=90.500s", "SHANTY_CKPT_MILESTONES=1000"));
  job.checkpoint = {.mount = "/mnt"};
  EXPECT_THAT(job_environment(job), ElementsAre("SHANTY_CKPT_DIR=/mnt", "SHANTY_CKPT_KEEP=3"));
  job.checkpoint = {.mount = "/mnt", .dir = "/mnt/a"};
  EXPECT_THAT(job_environment(job), testing::Contains("SHANTY_CKPT_DIR=/mnt/a"));
  job.checkpoint = {.dir = "here"};
  EXPECT_THAT(job_environment(job), testing::Contains("SHANTY_CKPT_DIR=here"));
}

TEST(JobEnvironment, TheJobsOwnEnvGoesLast) {
  Job job;
  job.checkpoint.dir = "here";
  job.run.env = {{"SHANTY_CKPT_DIR", "there"}};
  EXPECT_EQ(job_environment(job).back(), "SHANTY_CKPT_DIR=there");
}

TEST(FindPython, TheNamedOneGoesFirstThenTheEnvironmentsThenThePath) {
  EXPECT_EQ(*find_python("/bin/sh"), "/bin/sh");
  EXPECT_FALSE(find_python("/no/such/python").ok());
  EXPECT_FALSE(find_python("no-such-python").ok());
  const char* path = std::getenv("PATH");
  const std::string old_path = path != nullptr ? path : "";
  ::setenv("PYTHON_EXEC", "/bin/sh", 1);
  EXPECT_EQ(*find_python(""), "/bin/sh");
  ::unsetenv("PYTHON_EXEC");
  ::unsetenv("VIRTUAL_ENV");
  ::setenv("PATH", "/nowhere", 1);
  const auto none = find_python("");
  ::setenv("PATH", old_path.c_str(), 1);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("--python"));
}

}  // namespace
}  // namespace shanty
