#include "launch/identity.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using testing::HasSubstr;

EnvLookup variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

NodeIdentity identity(std::map<std::string, std::string> values) {
  const auto found = find_identity(variables(std::move(values)));
  EXPECT_TRUE(found.ok() && found->has_value());
  return found.ok() && found->has_value() ? **found : NodeIdentity{};
}

TEST(Identity, ReadsWhatEachSystemGives) {
  EXPECT_EQ(identity({{"JOB_COMPLETION_INDEX", "3"}}).node_rank, 3);
  EXPECT_EQ(identity({{"VC_TASK_INDEX", "2"}, {"VK_TASK_INDEX", "2"}}).node_rank, 2);
  const NodeIdentity kubeflow = identity({{"PET_NODE_RANK", "1"},
                                          {"PET_NNODES", "4"},
                                          {"PET_MASTER_ADDR", "job-master-0"},
                                          {"RANK", "1"},
                                          {"WORLD_SIZE", "32"}});
  EXPECT_EQ(kubeflow.node_rank, 1);
  EXPECT_EQ(kubeflow.nodes, 4);
  EXPECT_EQ(kubeflow.master_addr, "job-master-0");
  EXPECT_EQ(kubeflow.told_by, "PET_NODE_RANK of Kubeflow");
  EXPECT_EQ(identity({{"RANK", "5"}, {"MASTER_ADDR", "m"}, {"WORLD_SIZE", "64"}}).node_rank, 5);
  EXPECT_EQ(identity({{"SLURM_NODEID", "1"}, {"SLURM_NNODES", "2"}}).nodes, 2);
  const NodeIdentity group = identity(
      {{"LWS_WORKER_INDEX", "1"}, {"LWS_GROUP_SIZE", "2"}, {"LWS_LEADER_ADDRESS", "g-0.g.ns"}});
  EXPECT_EQ(group.master_addr, "g-0.g.ns");
}

TEST(Identity, WhatIsMeantForShantyComesFirst) {
  EXPECT_EQ(identity({{"SHANTY_NODE_RANK", "1"}, {"JOB_COMPLETION_INDEX", "0"}}).node_rank, 1);
}

TEST(Identity, NothingToldIsNoIdentity) {
  const auto found = find_identity(variables({{"PATH", "/bin"}}));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
}

TEST(Identity, AnUnusableValueIsNamed) {
  const auto found = find_identity(variables({{"JOB_COMPLETION_INDEX", "one"}}));
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message, HasSubstr("JOB_COMPLETION_INDEX=one"));
}

TEST(Identity, FlagsWin) {
  RunOptions options{.node_rank = 0, .master_addr = "here"};
  ASSERT_TRUE(apply_identity(options, variables({{"PET_NODE_RANK", "1"},
                                                 {"PET_NNODES", "2:2"},
                                                 {"PET_MASTER_ADDR", "there"}}))
                  .ok());
  EXPECT_EQ(options.node_rank, 0);
  EXPECT_EQ(options.nnodes, "2");
  EXPECT_EQ(options.master_addr, "here");
}

}  // namespace
}  // namespace shanty
