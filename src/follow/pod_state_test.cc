#include "follow/pod_state.h"

#include <gtest/gtest.h>

#include "follow/follow_test_util.h"

namespace shanty::follow {
namespace {

using nlohmann::json;
using Phase = ContainerState::Phase;

TEST(PodState, SaysWhatThePodIs) {
  const auto pod = read_pod(running_pod("train-1-x", 1, "node-7"));
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->job, "train");
  EXPECT_EQ(pod->node_rank, 1);
  EXPECT_EQ(pod->node, "node-7");
  EXPECT_EQ(pod->gpus, 8U);
  EXPECT_EQ(pod->gpu_resource, "nvidia.com/gpu");
  EXPECT_EQ(pod->created_unix_s, 1796013111);
  ASSERT_NE(pod->trainer(), nullptr);
  EXPECT_EQ(pod->trainer()->name, "trainer");
  EXPECT_EQ(pod->trainer()->phase, Phase::kRunning);
}

TEST(PodState, FindsTheRankWhereEachWorkloadPutsIt) {
  const auto rank_of = [](const char* label, const char* where) {
    json pod = pod_object("p", 0);
    pod["metadata"]["labels"].erase("batch.kubernetes.io/job-completion-index");
    pod["metadata"][where][label] = "3";
    return read_pod(pod)->node_rank;
  };
  EXPECT_EQ(rank_of("training.kubeflow.org/replica-index", "labels"), 3);
  EXPECT_EQ(rank_of("volcano.sh/task-index", "annotations"), 3);
  EXPECT_EQ(rank_of("something.else/index", "labels"), -1);
  json bare = pod_object("p", 0);
  bare["metadata"]["labels"].erase("batch.kubernetes.io/job-completion-index");
  bare["spec"]["containers"][0]["env"] = {{{"name", "SHANTY_NODE_RANK"}, {"value", "5"}}};
  EXPECT_EQ(read_pod(bare)->node_rank, 5);
}

TEST(PodState, KnowsWhetherTheRunDirectoryOutlivesThePod) {
  json pod = pod_object("p", 0);
  EXPECT_EQ(read_pod(pod)->run_dir, "/mnt/ckpt/.shanty/runs/train-1");
  EXPECT_TRUE(read_pod(pod)->run_dir_stays);
  pod["spec"]["containers"][0]["command"][2] = "--run-dir=/mnt/elsewhere";
  EXPECT_FALSE(read_pod(pod)->run_dir_stays);
  pod["metadata"]["annotations"]["shanty.dev/run-dir"] = "/mnt/ckpt/.shanty/runs/train-2";
  EXPECT_EQ(read_pod(pod)->run_dir, "/mnt/ckpt/.shanty/runs/train-2");
  EXPECT_TRUE(read_pod(pod)->run_dir_stays);
}

TEST(PodState, KnowsTheHeadOfARayClusterAsAHelper) {
  json pod = pod_object("p", 0);
  pod["metadata"]["labels"]["ray.io/node-type"] = "worker";
  EXPECT_FALSE(read_pod(pod)->is_helper);
  pod["metadata"]["labels"]["ray.io/node-type"] = "head";
  EXPECT_TRUE(read_pod(pod)->is_helper);
}

TEST(PodState, KeepsTheSchedulersWords) {
  json pod = pod_object("p", 0);
  pod["status"]["conditions"] = {
      {{"type", "PodScheduled"}, {"status", "False"}, {"message", "0/4 nodes are available"}}};
  EXPECT_EQ(read_pod(pod)->no_place_why, "0/4 nodes are available");
}

TEST(PodState, TakesAnythingWithoutHarm) {
  EXPECT_FALSE(read_pod(json::array()));
  EXPECT_FALSE(read_pod(json::object()));
  const auto pod = read_pod(json::parse(R"({"metadata": {"name": "p", "labels": 3},
      "spec": {"containers": [7, {"command": [1]}], "volumes": "x"},
      "status": {"containerStatuses": [null], "conditions": [[]], "phase": 1}})"));
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->phase, "Pending");
  EXPECT_EQ(pod->node_rank, -1);
}

}  // namespace
}  // namespace shanty::follow
