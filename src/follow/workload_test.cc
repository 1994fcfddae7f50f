#include "follow/workload.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace shanty::follow {
namespace {

using nlohmann::json;
using Outcome = WorkloadState::Outcome;

json object(const std::string& api, const std::string& kind, json status, json spec = {}) {
  return {
      {"apiVersion", api},
      {"kind", kind},
      {"metadata", {{"name", "train"}, {"uid", "u"}, {"labels", {{"shanty.dev/job", "train"}}}}},
      {"spec", std::move(spec)},
      {"status", std::move(status)}};
}

json condition(const std::string& type, const std::string& reason = "") {
  return {{"conditions",
           {{{"type", type}, {"status", "True"}, {"reason", reason}, {"message", "why"}}}}};
}

TEST(Workload, ReadsTheEndOfEachKind) {
  const auto outcome = [](const json& o) { return read_workload(o)->outcome; };
  EXPECT_EQ(outcome(object("batch/v1", "Job", condition("Complete"))), Outcome::kSucceeded);
  EXPECT_EQ(outcome(object("batch/v1", "Job", condition("FailureTarget"))), Outcome::kOpen);
  EXPECT_EQ(outcome(object("jobset.x-k8s.io/v1alpha2", "JobSet", condition("Completed"))),
            Outcome::kSucceeded);
  EXPECT_EQ(outcome(object("kubeflow.org/v1", "PyTorchJob", condition("Failed"))),
            Outcome::kFailed);
  EXPECT_EQ(outcome(object("kubeflow.org/v1", "PyTorchJob", condition("Restarting"))),
            Outcome::kOpen);
  EXPECT_EQ(
      outcome(object("batch.volcano.sh/v1alpha1", "Job", {{"state", {{"phase", "Completed"}}}})),
      Outcome::kSucceeded);
  EXPECT_EQ(outcome(object("ray.io/v1", "RayJob", {{"jobStatus", "FAILED"}})), Outcome::kFailed);
  EXPECT_EQ(outcome(object("ray.io/v1", "RayJob", {{"jobDeploymentStatus", "Running"}})),
            Outcome::kOpen);
  EXPECT_FALSE(read_workload(object("v1", "ConfigMap", {})));
}

TEST(Workload, KeepsWhyItFailed) {
  const auto state =
      read_workload(object("batch/v1", "Job", condition("Failed", "PodFailurePolicy")));
  EXPECT_EQ(state->reason, "PodFailurePolicy");
  EXPECT_EQ(state->message, "why");
}

TEST(Workload, KnowsSuspensionByEachKindsField) {
  EXPECT_TRUE(read_workload(object("batch/v1", "Job", {}, {{"suspend", true}}))->is_suspended);
  EXPECT_TRUE(read_workload(
                  object("kubeflow.org/v1", "PyTorchJob", {}, {{"runPolicy", {{"suspend", true}}}}))
                  ->is_suspended);
  EXPECT_FALSE(read_workload(object("batch/v1", "Job", {}))->is_suspended);
}

QueueEntry entry(const std::string& uid, int64_t priority, int64_t created) {
  return {.name = uid,
          .owner_uid = uid,
          .queue = "team-a",
          .priority = priority,
          .created_unix_s = created};
}

TEST(Queue, CountsByPriorityThenAge) {
  std::vector<QueueEntry> all = {entry("own", 0, 20), entry("older", 0, 10), entry("high", 5, 30),
                                 entry("younger", 0, 40), entry("runs", 9, 1)};
  all.back().is_admitted = true;
  all[0].why = "insufficient quota for nvidia.com/gpu, 16 more needed";
  const auto place = find_place(all, "own");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->position, 3U);
  EXPECT_EQ(place->waiting, 4U);
  EXPECT_EQ(place->why, all[0].why);
  EXPECT_FALSE(find_place(all, "stranger"));
  EXPECT_TRUE(find_place(all, "runs")->is_admitted);
}

TEST(Queue, ReadsKueuesWorkload) {
  const auto read = read_queue_entry(json::parse(R"({
    "metadata": {"name": "job-train-1", "creationTimestamp": "1970-01-01T00:00:09Z",
                 "ownerReferences": [{"uid": "u"}]},
    "spec": {"queueName": "team-a", "priority": 7, "active": false},
    "status": {"conditions": [{"type": "QuotaReserved", "status": "False",
                               "reason": "Pending", "message": "insufficient unused quota"}]}})"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->owner_uid, "u");
  EXPECT_EQ(read->priority, 7);
  EXPECT_EQ(read->created_unix_s, 9);
  EXPECT_EQ(read->why, "insufficient unused quota");
  EXPECT_TRUE(read->is_kept_out);
  EXPECT_FALSE(read->is_admitted);
}

}  // namespace
}  // namespace shanty::follow
