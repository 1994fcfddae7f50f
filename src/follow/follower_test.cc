#include "follow/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "follow/follow_test_util.h"

namespace shanty::follow {
namespace {

using std::chrono_literals::operator""s;
using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FollowerTest : public ::testing::Test {
 protected:
  std::vector<std::string> pod(const json& object) {
    return texts(follower_.on_pod(*read_pod(object), now_));
  }
  std::vector<std::string> event(const std::string& reason, const std::string& message,
                                 const std::string& uid, const std::string& kind = "Pod",
                                 const std::string& name = "x") {
    return texts(follower_.on_event({.about_kind = kind,
                                     .about_name = name,
                                     .about_uid = uid,
                                     .reason = reason,
                                     .message = message,
                                     .host = "",
                                     .is_warning = true},
                                    true));
  }
  std::vector<std::string> workload(WorkloadState state) {
    state.kind = "Job";
    state.name = "train";
    state.uid = "uid-job";
    return texts(follower_.on_workload(state, now_));
  }
  std::vector<std::string> after(Duration duration) {
    now_ = now_ + duration;
    return texts(follower_.on_tick(now_));
  }
  static std::vector<std::string> texts(const Lines& lines) {
    std::vector<std::string> out;
    for (const Line& line : lines) out.push_back(line.text);
    return out;
  }

  Follower follower_{{.job = "train", .pods = 2}};
  TimePoint now_;
};

json without_place(const std::string& name, int rank, const std::string& why) {
  json pod = pod_object(name, rank);
  pod["status"]["conditions"] = {{{"type", "PodScheduled"}, {"status", "False"}, {"message", why}}};
  return pod;
}

TEST_F(FollowerTest, CountsOnlyPodsThatAreNodes) {
  json head = running_pod("train-head", 0, "n0", 0);
  head["metadata"]["labels"]["ray.io/node-type"] = "head";
  pod(head);
  EXPECT_EQ(follower_.summary(), "0 of 2 pods run");
  EXPECT_THAT(pod(running_pod("train-a", 0, "n1")), Not(Contains(HasSubstr("pods: "))));
  EXPECT_THAT(pod(running_pod("train-b", 1, "n2")),
              Contains("pods: 2 of 2 run, with 16 x nvidia.com/gpu in all, on 2 nodes: n1, n2"));
}

TEST_F(FollowerTest, TellsWhatPodsWaitForOnceItHasSettled) {
  pod(without_place("train-0", 0, "0/4 nodes are available"));
  EXPECT_THAT(after(1s), IsEmpty());
  pod(without_place("train-1", 1, "0/4 nodes are available"));
  EXPECT_THAT(after(1s), IsEmpty());
  EXPECT_THAT(after(1s), ElementsAre("2 pods have no place yet: 0/4 nodes are available"));
  EXPECT_THAT(after(10s), IsEmpty());
  EXPECT_EQ(follower_.summary(), "0 of 2 pods run, train-0 has no place yet");
}

TEST_F(FollowerTest, FollowsAPodToItsNodeAndToItsImage) {
  EXPECT_THAT(pod(pod_object("train-0", 0, "node-7")),
              ElementsAre("pod train-0 goes to node node-7"));
  EXPECT_THAT(event("Pulling", "Pulling image \"train:1\"", "uid-train-0"),
              ElementsAre("node node-7 pulls train:1 for pod train-0"));
  const std::string pulled =
      "Successfully pulled image \"train:1\" in 1m34.2s (1m34.2s including waiting). Image size: 9 "
      "bytes.";
  EXPECT_THAT(event("Pulled", pulled, "uid-train-0"),
              ElementsAre("node node-7 has pulled train:1 in 1m34.2s"));
  EXPECT_THAT(event("Pulled", pulled, "uid-train-0"), IsEmpty());
  EXPECT_THAT(event("Pulled", "Container image \"a\" already present on machine", "uid-train-0"),
              IsEmpty());
}

TEST_F(FollowerTest, KeepsEventsOfPodsThatItDoesNotKnowYet) {
  EXPECT_THAT(event("Pulling", "Pulling image \"train:1\"", "uid-train-0"), IsEmpty());
  EXPECT_THAT(pod(pod_object("train-0", 0, "node-7")),
              Contains("node node-7 pulls train:1 for pod train-0"));
}

TEST_F(FollowerTest, AnswersWhetherAllRunWithTheirGpus) {
  EXPECT_THAT(pod(running_pod("train-0", 0, "node-1")),
              ElementsAre("pod train-0 runs on node node-1 (8 x nvidia.com/gpu)"));
  EXPECT_THAT(pod(running_pod("train-1", 1, "node-2")),
              Contains("pods: 2 of 2 run, with 16 x nvidia.com/gpu in all, on 2 nodes: node-1, "
                       "node-2"));
  EXPECT_TRUE(follower_.all_run());
}

TEST_F(FollowerTest, SaysWhyAContainerCannotStartOnce) {
  const auto stuck = [](const std::string& reason) {
    return with_states(pod_object("train-0", 0, "node-1"), "Pending", ended(0, "Completed"),
                       waiting(reason, "no such tag"));
  };
  EXPECT_THAT(
      pod(stuck("ErrImagePull")),
      Contains("pod train-0 cannot start trainer on node node-1: ErrImagePull: no such tag"));
  EXPECT_THAT(pod(stuck("ImagePullBackOff")), IsEmpty());
}

TEST_F(FollowerTest, TellsAPodsDeathAndItsReplacement) {
  pod(running_pod("train-1-a", 1, "node-1"));
  EXPECT_THAT(pod(with_states(pod_object("train-1-a", 1, "node-1"), "Failed", ended(0),
                              ended(137, "OOMKilled"))),
              ElementsAre("pod train-1-a failed: trainer exited with 137 (OOMKilled)"));
  EXPECT_THAT(pod(pod_object("train-1-b", 1)),
              ElementsAre("pod train-1-b is the new node 1 of the job"));
  EXPECT_THAT(
      pod(with_states(pod_object("train-1-b", 1, "node-1"), "Running", ended(0), running(), 2)),
      Contains("pod train-1-b was restarted in place, for the 2. time"));
  follower_.on_pod_gone("train-1-a");
  EXPECT_THAT(texts(follower_.on_pod_gone("train-1-b")), ElementsAre("pod train-1-b is gone"));
}

TEST_F(FollowerTest, EndsWithTheJobsOwnExitCode) {
  pod(with_states(pod_object("train-0", 0, "n"), "Failed", ended(0), ended(2)));
  EXPECT_FALSE(follower_.end());
  workload(
      {.outcome = WorkloadState::Outcome::kFailed, .reason = "PodFailurePolicy", .message = "m"});
  ASSERT_TRUE(follower_.end());
  EXPECT_EQ(follower_.end()->exit_code, 2);
  EXPECT_EQ(follower_.end()->text, "Job train failed: PodFailurePolicy: m");
}

TEST_F(FollowerTest, AKilledPodIsNoWordOnTheJob) {
  pod(with_states(pod_object("train-0", 0, "n"), "Failed", ended(0), ended(137)));
  workload({.outcome = WorkloadState::Outcome::kFailed});
  EXPECT_EQ(follower_.end()->exit_code, 1);
  Follower other({.job = "train", .pods = 2});
  other.on_workload({.kind = "Job", .name = "train", .outcome = WorkloadState::Outcome::kSucceeded},
                    now_);
  EXPECT_EQ(other.end()->exit_code, 0);
}

TEST_F(FollowerTest, BarePodsEndWhenAllAreDone) {
  follower_ = Follower({.job = "train", .pods = 2, .bare_pods = true});
  pod(with_states(pod_object("train-0", 0, "n"), "Succeeded", ended(0), ended(0)));
  EXPECT_FALSE(follower_.end());
  pod(with_states(pod_object("train-1", 1, "n"), "Failed", ended(0), ended(143)));
  EXPECT_FALSE(follower_.end());
  json again = with_states(pod_object("train-1", 1, "n"), "Succeeded", ended(0), ended(0));
  again["metadata"]["uid"] = "another";
  pod(again);
  ASSERT_TRUE(follower_.end());
  EXPECT_EQ(follower_.end()->exit_code, 0);
}

TEST_F(FollowerTest, SuspensionOfAJobThatHadPodsIsItsEnd) {
  workload({.is_suspended = true});
  EXPECT_FALSE(follower_.end());
  workload({});
  pod(running_pod("train-0", 0, "n"));
  workload({.is_suspended = true});
  ASSERT_TRUE(follower_.end());
  EXPECT_EQ(follower_.end()->text, "the job was stopped");
}

TEST_F(FollowerTest, TellsThePlaceInTheQueueWhenItChanges) {
  QueuePlace place{.queue = "team-a", .position = 2, .waiting = 3, .why = "16 more needed"};
  EXPECT_THAT(texts(follower_.on_queue(place)),
              ElementsAre("the job is number 2 of 3 that wait in queue team-a: 16 more needed"));
  EXPECT_THAT(follower_.on_queue(place), IsEmpty());
  EXPECT_EQ(follower_.summary(), "number 2 of 3 in queue team-a");
  place.position = 1;
  EXPECT_THAT(texts(follower_.on_queue(place)), ElementsAre(HasSubstr("number 1 of 3")));
  place.is_admitted = true;
  EXPECT_THAT(texts(follower_.on_queue(place)), ElementsAre("queue team-a has let the job in"));
}

TEST_F(FollowerTest, TellsWarningsAboutTheJobsObjectsOnly) {
  workload({});
  EXPECT_THAT(event("FailedCreate", "exceeded quota", "uid-job", "Job", "train"),
              ElementsAre("Job train: FailedCreate: exceeded quota"));
  EXPECT_THAT(event("FailedCreate", "other", "u2", "Job", "train-node-0"), Not(IsEmpty()));
  EXPECT_THAT(event("FailedCreate", "other", "u3", "Job", "training"), IsEmpty());
}

TEST_F(FollowerTest, SaysLittleAboutEachOfManyPods) {
  follower_ = Follower({.job = "train", .pods = 1000});
  size_t lines = 0;
  for (int i = 0; i < 1000; ++i) {
    lines += pod(running_pod("train-" + std::to_string(i), i, "node-" + std::to_string(i))).size();
  }
  EXPECT_LE(lines, Follower::kMaxOrdinaryLines + 2);
  EXPECT_TRUE(follower_.all_run());
}

TEST_F(FollowerTest, AsksNoNcclOfAJobWithoutGpus) {
  pod(running_pod("train-0", 0, "n", 0));
  pod(running_pod("train-1", 1, "n", 0));
  const auto answers = texts(follower_.on_agent_line("generation 1: 2 ranks on 2 nodes", now_));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_THAT(answers[0], HasSubstr("environment: right on all 2 ranks of 2 nodes"));
  EXPECT_THAT(answers[1], HasSubstr("NCCL is not asked"));
}

}  // namespace
}  // namespace shanty::follow
