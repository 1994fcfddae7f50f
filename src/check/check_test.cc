#include "check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "causes/catalogue.h"
#include "check/own_objects.h"
#include "check/pending.h"

namespace shanty::check {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kGpu = "nvidia.com/gpu";
const ServedKind kNative = {"scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", true};

NodeFacts node(const std::string& name, int64_t gpus = 8) {
  NodeFacts facts;
  facts.fit = {.name = name,
               .labels = {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"},
                          {"nvidia.com/cuda.driver-version.full", "580.95.05"},
                          {"nvidia.com/gpu.present", "true"}},
               .allocatable = {{"cpu", 96000}, {"memory", int64_t{1} << 40}, {"pods", 110}}};
  if (gpus > 0) facts.fit.allocatable[kGpu] = gpus;
  facts.capacity = facts.fit.allocatable;
  return facts;
}

// Two nodes of eight GPUs, and a gang mechanism.
Snapshot cluster() {
  return {.k8s_namespace = "ml",
          .now_unix_s = 1000,
          .kinds = {kNative},
          .nodes = {node("a"), node("b")},
          .secrets = std::vector<std::string>{}};
}

Workload two_pods() {
  return {.name = "llm",
          .k8s_namespace = "ml",
          .request = {.groups = {{.name = "w", .pods = 2, .per_pod = {{"cpu", 32000}, {kGpu, 8}}}}},
          .gang = true};
}

std::vector<std::string> codes(const CheckReport& report) {
  std::vector<std::string> out;
  for (const Finding& finding : report.findings) out.push_back(finding.code);
  return out;
}

const Finding& only(const CheckReport& report, std::string_view code) {
  const auto found = std::ranges::find(report.findings, code, &Finding::code);
  EXPECT_NE(found, report.findings.end()) << code;
  static const Finding kNone;
  return found == report.findings.end() ? kNone : *found;
}

TEST(Check, IsQuietWhereAllIsWell) {
  const CheckReport report = evaluate(cluster(), two_pods());
  EXPECT_TRUE(report.fits());
  EXPECT_FALSE(report.has_problems());
  EXPECT_THAT(codes(report), IsEmpty());
  EXPECT_THAT(report_text(report, false, 0), HasSubstr("fits now"));
}

TEST(Check, SaysThatTheNamespacesLevelRejectsThePods) {
  Snapshot snapshot = cluster();
  snapshot.pod_security = "baseline";
  snapshot.refusals = {{.object = "Job llm",
                        .message = "violates PodSecurity: host namespaces (hostNetwork=true)",
                        .is_pod_security = true}};
  const CheckReport report = evaluate(snapshot, two_pods());
  EXPECT_FALSE(report.fits());
  EXPECT_EQ(only(report, "SEC050").message,
            "namespace ml enforces the pod security level baseline, which rejects the pods of Job "
            "llm");
}

TEST(Check, SaysWhomAPriorityWouldPreempt) {
  Snapshot snapshot = cluster();
  snapshot.priority_classes = {{.name = "high", .value = 100},
                               {.name = "usual", .value = 10, .is_default = true},
                               {.name = "polite", .value = 100, .preempts = false}};
  for (const char* name : {"a", "b"}) {
    snapshot.pods.push_back({.k8s_namespace = "other",
                             .name = name,
                             .owner = "Job low",
                             .node = name,
                             .requests = {{kGpu, 8}},
                             .priority = 10});
  }
  Workload workload = two_pods();
  EXPECT_THAT(codes(evaluate(snapshot, workload)), Not(Contains("SCHED063")));
  workload.priority_class = "polite";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), Not(Contains("SCHED063")));
  workload.priority_class = "high";
  const CheckReport report = evaluate(snapshot, workload);
  EXPECT_FALSE(report.fits());
  EXPECT_THAT(only(report, "SCHED063").evidence.front().text,
              HasSubstr("Job low of namespace other"));
}

TEST(Check, KueueWithoutAQueueInTheNamespaceKeepsNoJobFromStarting) {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", true});
  Workload workload = two_pods();
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  workload.gang = false;
  const CheckReport report = evaluate(snapshot, workload);
  EXPECT_TRUE(report.fits());
  EXPECT_THAT(only(report, "GANG050").evidence.front().text, HasSubstr("no LocalQueue"));
}

TEST(Check, FindsGpusThatNobodyOffers) {
  Snapshot none = cluster();
  none.nodes = {node("a", 0), node("b", 0)};
  EXPECT_EQ(only(evaluate(none, two_pods()), "GPU050").severity, Severity::kError);
  Snapshot sick = cluster();
  sick.nodes[0].fit.allocatable[kGpu] = 7;
  EXPECT_THAT(only(evaluate(sick, two_pods()), "GPU051").subject.nodes, ElementsAre("a"));
}

TEST(Check, CountsNoGpusThatAreGivenByClaims) {
  Snapshot snapshot = cluster();
  snapshot.nodes = {node("a", 0), node("b", 0)};
  snapshot.device_resources = {kGpu};
  const CheckReport report = evaluate(snapshot, two_pods());
  EXPECT_TRUE(report.fits()) << report_text(report, false, 0);
  EXPECT_THAT(report.unread, Contains(HasSubstr("is not counted")));
  snapshot.nodes[0] = node("a", 4);  // the device plugin of one node is there
  EXPECT_FALSE(evaluate(snapshot, two_pods()).fits());
}

TEST(Check, WarnsOfMixedModelsAndDrivers) {
  Snapshot mixed = cluster();
  mixed.nodes[0].fit.labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB";
  mixed.nodes[0].fit.labels["nvidia.com/cuda.driver-version.full"] = "535.1";
  const CheckReport report = evaluate(mixed, two_pods());
  EXPECT_THAT(codes(report), ElementsAre("GPU052", "GPU053"));
  EXPECT_TRUE(report.fits());
  EXPECT_TRUE(report.has_problems());
}

TEST(Check, TakesOnlyTheModelThatTheUserNames) {
  Snapshot mixed = cluster();
  mixed.nodes[0].fit.labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB";
  Workload workload = two_pods();
  workload.gpu_model = "h100-80g";
  EXPECT_FALSE(evaluate(mixed, workload).fits());
  workload.request.groups[0].pods = 1;
  const CheckReport one = evaluate(mixed, workload);
  EXPECT_TRUE(one.fits()) << report_text(one, false, 0);
  workload.gpu_model = "a10";
  EXPECT_THAT(codes(evaluate(mixed, workload)), Contains("SCHED054"));
  workload.gpu_model = "b200";
  EXPECT_THAT(codes(evaluate(mixed, workload)), Contains("SCHED054"));
}

TEST(Check, NamesWhatKeepsNodesAway) {
  Snapshot away = cluster();
  away.nodes.push_back(node("c"));
  away.nodes.push_back(node("d"));
  away.nodes[1].fit.cordoned = true;
  away.nodes[2].fit.ready = false;
  away.nodes[2].not_ready_reason = "KubeletNotReady: container runtime is down";
  away.nodes[3].fit.taints = {{"dedicated", "vision", "NoSchedule"}};
  const CheckReport report = evaluate(away, two_pods());
  EXPECT_THAT(codes(report), ElementsAre("SCHED050", "SCHED052", "SCHED053", "SCHED053"));
  EXPECT_THAT(report_text(report, false, 0),
              HasSubstr("smallest change: tolerate dedicated=vision:NoSchedule"));
  EXPECT_THAT(report_text(report, false, 0), HasSubstr("container runtime is down"));
  const json out = json::parse(report_json(report));
  EXPECT_EQ(out["fits"], false);
  EXPECT_EQ(out["change"]["kind"], "tolerate");
  EXPECT_EQ(out["pods"]["placed"], 1);
}

TEST(Check, LooksAtClaims) {
  Snapshot snapshot = cluster();
  snapshot.claims["rwo"] = {"rwo", "Bound", {"ReadWriteOnce"}};
  snapshot.claims["rox"] = {"rox", "Bound", {"ReadOnlyMany"}};
  snapshot.claims["rwx"] = {"rwx", "Pending", {"ReadWriteMany"}, "slow"};
  snapshot.claims["late"] = {"late", "Pending", {"ReadWriteMany"}, "late"};
  snapshot.late_binding = {{"slow", false}, {"late", true}};
  const auto codes_for = [&](const std::string& claim, bool read_only, bool many = true) {
    Workload workload = two_pods();
    workload.claims = {{claim, read_only, many}};
    return codes(evaluate(snapshot, workload));
  };
  EXPECT_THAT(codes_for("none", false), ElementsAre("STO050"));
  EXPECT_THAT(codes_for("rwo", false), ElementsAre("STO051"));
  EXPECT_THAT(codes_for("rwo", false, false), IsEmpty());
  EXPECT_THAT(codes_for("rox", true), IsEmpty());
  EXPECT_THAT(codes_for("rox", false), ElementsAre("STO051"));
  EXPECT_THAT(codes_for("rwx", false), ElementsAre("STO052"));
  EXPECT_THAT(codes_for("late", false), IsEmpty());
}

NodeFacts node_in(const std::string& zone, const std::string& name) {
  NodeFacts facts = node(name);
  facts.fit.labels["zone"] = zone;
  return facts;
}

TEST(Check, PlacesPodsWhereTheirVolumesAre) {
  Snapshot snapshot = cluster();
  snapshot.nodes = {node_in("a", "a-0"), node_in("b", "b-0"), node_in("b", "b-1")};
  const auto bound = [&](const std::string& name, const std::string& zone) {
    snapshot.claims[name] = {.name = name,
                             .phase = "Bound",
                             .access_modes = {"ReadWriteMany"},
                             .volume = "pv-" + name,
                             .nodes = {{{.key = "zone", .values = {zone}}}}};
  };
  bound("in-a", "a");
  bound("in-b", "b");
  Workload workload = two_pods();
  const auto with = [&](std::vector<std::string> claims) {
    workload.request.groups[0].claims = std::move(claims);
    return evaluate(snapshot, workload);
  };
  EXPECT_THAT(codes(with({"in-b"})), IsEmpty());
  const CheckReport near = with({"in-a"});
  EXPECT_THAT(codes(near), ElementsAre("SCHED050", "STO054"));
  EXPECT_EQ(near.fit.placed, 1U);
  EXPECT_EQ(near.fit.nodes[1].state, NodeState::kNoVolume);
  EXPECT_THAT(only(near, "STO054").evidence[0].text,
              HasSubstr("claim in-a is on volume pv-in-a, for nodes with zone In [a]"));
  const CheckReport nowhere = with({"in-a", "in-b"});
  EXPECT_EQ(only(nowhere, "STO054").severity, Severity::kError);
  EXPECT_EQ(nowhere.fit.placed, 0U);
}

TEST(Check, PlacesEachGroupWhereItsVolumesAre) {
  Snapshot snapshot = cluster();
  snapshot.nodes = {node_in("a", "a-0"), node_in("b", "b-0")};
  snapshot.claims["in-a"] = {.name = "in-a",
                             .phase = "Bound",
                             .access_modes = {"ReadWriteOnce"},
                             .nodes = {{{.key = "zone", .values = {"a"}}}}};
  Workload workload = two_pods();
  workload.request.groups = {{.name = "w", .pods = 1, .per_pod = {{kGpu, 8}}},
                             {.name = "head", .pods = 1, .per_pod = {{kGpu, 8}}}};
  EXPECT_TRUE(evaluate(snapshot, workload).fits());
  workload.request.groups[1].claims = {"in-a"};
  snapshot.nodes[0].fit.allocatable[kGpu] = 4;  // where the head's volume is, there is no room
  snapshot.nodes.push_back(node_in("b", "b-1"));
  EXPECT_FALSE(evaluate(snapshot, workload).fits());
  workload.request.groups[1].claims.clear();
  EXPECT_TRUE(evaluate(snapshot, workload).fits());
}

TEST(Check, LooksAtSecretsOnlyWhereItMaySeeThem) {
  Snapshot snapshot = cluster();
  Workload workload = two_pods();
  workload.pull_secrets = {"registry"};
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("IMG050"));
  snapshot.secrets->push_back("registry");
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.secrets.reset();
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
}

TEST(Check, LooksAtQuotasAndLimits) {
  Snapshot snapshot = cluster();
  snapshot.quotas = {{.name = "q",
                      .hard = {{"requests.nvidia.com/gpu", 16}, {"pods", 10}},
                      .used = {{"requests.nvidia.com/gpu", 8}}}};
  const CheckReport busy = evaluate(snapshot, two_pods());
  EXPECT_EQ(only(busy, "SCHED056").severity, Severity::kWarning);
  ASSERT_EQ(busy.fit.changes.size(), 1U);
  EXPECT_EQ(busy.fit.changes[0].pods, 1U);
  EXPECT_FALSE(busy.fits());
  EXPECT_TRUE(busy.fit.fits);
  snapshot.quotas[0].hard["requests.nvidia.com/gpu"] = 8;
  EXPECT_EQ(only(evaluate(snapshot, two_pods()), "SCHED056").severity, Severity::kError);
  snapshot.quotas.clear();
  snapshot.limits = {{.name = "l", .type = "Container", .most = {{"cpu", 16000}}}};
  EXPECT_THAT(only(evaluate(snapshot, two_pods()), "SCHED057").message,
              HasSubstr("at most 16 cpu"));
}

TEST(Check, LooksAtTheLimitsThatAQuotaCounts) {
  Snapshot snapshot = cluster();
  snapshot.quotas = {{.name = "q", .hard = {{"limits.cpu", 100'000}}}};
  Workload workload = two_pods();
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());  // the pods have none
  workload.request.groups[0].limits = {{"cpu", 64'000}};
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("SCHED056"));
}

TEST(Check, LooksOnlyAtQuotasThatCountThePods) {
  Snapshot snapshot = cluster();
  snapshot.quotas = {{.name = "q", .hard = {{"requests.nvidia.com/gpu", 8}}}};
  Workload workload = two_pods();
  workload.priority_class = "high";
  const auto with = [&](std::vector<QuotaScope> scopes) {
    snapshot.quotas[0].scopes = std::move(scopes);
    return codes(evaluate(snapshot, workload));
  };
  EXPECT_THAT(with({{"Terminating"}}), IsEmpty());
  EXPECT_THAT(with({{"NotTerminating"}, {"NotBestEffort"}}), ElementsAre("SCHED056"));
  EXPECT_THAT(with({{"BestEffort"}}), IsEmpty());
  EXPECT_THAT(with({{"PriorityClass", "In", {"low"}}}), IsEmpty());
  EXPECT_THAT(with({{"PriorityClass", "NotIn", {"low"}}}), ElementsAre("SCHED056"));
  EXPECT_THAT(with({{"PriorityClass", "Exists"}}), ElementsAre("SCHED056"));
  EXPECT_EQ(only(evaluate(snapshot, workload), "SCHED056").severity, Severity::kError);
  EXPECT_THAT(with({{"CrossNamespacePodAffinity"}}), ElementsAre("SCHED056"));
  EXPECT_LT(only(evaluate(snapshot, workload), "SCHED056").confidence, 1);
}

TEST(Check, LeavesBoundsToTheServerOnceItHasSeenThePods) {
  Snapshot snapshot = cluster();
  snapshot.limits = {{.name = "l", .type = "Container", .most = {{"cpu", 16000}}}};
  Workload workload = two_pods();
  workload.request.groups[0].containers = 2;  // of 16 CPUs each, perhaps
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  workload.request.groups[0].containers = 1;
  snapshot.pods_tried = true;
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.refusals = {{.object = "Job llm",
                        .message = "maximum cpu usage per Container is 16, but limit is 32",
                        .is_limit_range = true}};
  EXPECT_THAT(only(evaluate(snapshot, workload), "SCHED057").message, HasSubstr("pods of Job llm"));
}

kube::ApiError refused(int status, const std::string& detail) {
  return {{"cannot create pods: " + detail}, status, status == 403 ? "Forbidden" : "", detail};
}

TEST(Refusals, AreThoseThatKeepPodsFromBeingMade) {
  const auto refusal = refusal_of_pod(
      refused(403,
              "pods \"check-x\" is forbidden: error looking up service account ml/trainer: "
              "serviceaccount \"trainer\" not found"),
      {});
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->message, testing::StartsWith("error looking up service account"));
  EXPECT_TRUE(refusal_of_pod(refused(403,
                                     "pods \"x\" is forbidden: failed quota: q: must specify "
                                     "limits.cpu for: t"),
                             {}));
  EXPECT_TRUE(refusal_of_pod(
      refused(400, "admission webhook \"v.kyverno.svc\" denied the request: no"), {}));
  EXPECT_TRUE(refusal_of_pod(
                  refused(403, "pods \"x\" is forbidden: violates PodSecurity \"restricted\""), {})
                  ->is_pod_security);
  EXPECT_TRUE(refusal_of_pod(refused(403,
                                     "pods \"x\" is forbidden: maximum memory usage per "
                                     "Container is 1Gi, but limit is 2Gi"),
                             {})
                  ->is_limit_range);
}

TEST(Refusals, AreNotWhatIsJudgedElsewhereOrMadeWithTheJob) {
  const json account = {{"kind", "ServiceAccount"}, {"metadata", {{"name", "trainer"}}}};
  EXPECT_FALSE(refusal_of_pod(
      refused(403,
              "error looking up service account ml/trainer: serviceaccount \"trainer\" not "
              "found"),
      {account}));
  for (const char* text : {"pods is forbidden: User \"me\" cannot create resource \"pods\"",
                           "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1",
                           "pods \"x\" is forbidden: no PriorityClass with name high was found"}) {
    EXPECT_FALSE(refusal_of_pod(refused(403, text), {})) << text;
  }
  EXPECT_FALSE(refusal_of_pod(refused(422, "Pod \"x\" is invalid: image: Required value"), {}));
}

TEST(OwnObjects, AreNotMissed) {
  Snapshot snapshot = cluster();
  snapshot.namespace_exists = false;
  snapshot.priority_classes = {{.name = "low"}};
  Workload workload = two_pods();
  workload.claims = {{"ckpt", false, true}};
  workload.pull_secrets = {"registry"};
  workload.priority_class = "high";
  const auto object = [](const char* kind, const char* name, json spec = json::object()) {
    return json{{"kind", kind}, {"metadata", {{"name", name}}}, {"spec", std::move(spec)}};
  };
  const CheckReport before = evaluate(snapshot, workload);
  for (const char* code : {"SCHED059", "STO050", "IMG050"}) {
    EXPECT_THAT(codes(before), Contains(code));
  }
  add_own_objects(
      {object("Namespace", "ml"), object("PriorityClass", "high"), object("Secret", "registry"),
       object("PersistentVolumeClaim", "ckpt", {{"accessModes", {"ReadWriteMany"}}})},
      snapshot);
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  Snapshot once = cluster();
  add_own_objects({object("PersistentVolumeClaim", "ckpt", {{"accessModes", {"ReadWriteOnce"}}})},
                  once);
  workload = two_pods();
  workload.claims = {{"ckpt", false, true}};
  EXPECT_THAT(codes(evaluate(once, workload)), ElementsAre("STO051"));
}

ClusterQueueFacts queue_of(const std::string& name, int64_t nominal, int64_t used) {
  ClusterQueueFacts queue{.name = name};
  queue.quotas = {{.flavor = "f", .resource = kGpu, .nominal = nominal, .used = used},
                  {.flavor = "f", .resource = "cpu", .nominal = 1'000'000}};
  return queue;
}

TEST(Check, FollowsAQueueOfKueueToItsQuota) {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", true});
  Workload workload = two_pods();
  workload.kueue_queue = "team";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG051"));
  snapshot.local_queues = {{.name = "team", .cluster_queue = "cq"}};
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG051"));
  snapshot.cluster_queues = {queue_of("cq", 16, 8)};
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG054"));
  EXPECT_FALSE(evaluate(snapshot, workload).fits());
  snapshot.local_queues.push_back({.name = "spare", .cluster_queue = "other"});
  snapshot.cluster_queues.push_back(queue_of("other", 16, 0));
  const json change = json::parse(report_json(evaluate(snapshot, workload)))["change"];
  EXPECT_EQ(change["kind"], "other_queue");
  EXPECT_EQ(change["label"], "spare");
  snapshot.cluster_queues[0] = queue_of("cq", 8, 0);
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG053"));
  snapshot.cluster_queues[0].cohort = snapshot.cluster_queues[1].cohort = "all";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.cluster_queues[0].quotas[0].borrow = 4;
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG053"));
  snapshot.cluster_queues[0].stopped = true;
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG052"));
}

TEST(Check, CountsOnlyWhatACohortLends) {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", true});
  snapshot.local_queues = {{.name = "team", .cluster_queue = "cq"}};
  snapshot.cluster_queues = {queue_of("cq", 8, 0), queue_of("other", 16, 0)};
  snapshot.cluster_queues[0].cohort = snapshot.cluster_queues[1].cohort = "all";
  Workload workload = two_pods();
  workload.kueue_queue = "team";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.cluster_queues[1].quotas[0].lend = 4;
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG053"));
  snapshot.cluster_queues[1].quotas[0].lend = 8;
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.cluster_queues[1].quotas[0].used = 12;
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG054"));
}

FlavorQuota gpus(int64_t nominal) { return {.flavor = "f", .resource = kGpu, .nominal = nominal}; }

// org: dept-a (cq, peer) and dept-b (far).
Snapshot tree_of_cohorts() {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", true});
  snapshot.local_queues = {{.name = "team", .cluster_queue = "cq"}};
  snapshot.cluster_queues = {queue_of("cq", 4, 0), queue_of("peer", 4, 0), queue_of("far", 8, 0)};
  snapshot.cluster_queues[0].cohort = snapshot.cluster_queues[1].cohort = "dept-a";
  snapshot.cluster_queues[2].cohort = "dept-b";
  snapshot.cohorts = {{.name = "dept-a", .parent = "org"}, {.name = "dept-b", .parent = "org"}};
  return snapshot;
}

TEST(Check, BorrowsUpTheTreeOfCohorts) {
  Snapshot snapshot = tree_of_cohorts();
  Workload workload = two_pods();  // of 16 GPUs
  workload.kueue_queue = "team";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.cohorts[1].parent = "";  // the departments have nothing to do with each other
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG053"));
  snapshot.cohorts[0].quotas = {gpus(8)};  // a quota of the department itself
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  snapshot.cluster_queues[1].quotas[0].used = 12;  // borrowed from it
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG054"));
}

TEST(Check, KeepsToTheLimitsOfCohorts) {
  Workload workload = two_pods();
  workload.kueue_queue = "team";
  const auto code_with = [&](auto change) {
    Snapshot snapshot = tree_of_cohorts();
    for (CohortFacts& cohort : snapshot.cohorts) cohort.quotas = {gpus(0)};
    change(snapshot);
    return codes(evaluate(snapshot, workload));
  };
  EXPECT_THAT(code_with([](Snapshot& s) { s.cohorts[0].quotas[0].borrow = 8; }), IsEmpty());
  EXPECT_THAT(code_with([](Snapshot& s) { s.cohorts[0].quotas[0].borrow = 7; }),
              ElementsAre("GANG053"));
  EXPECT_THAT(code_with([](Snapshot& s) { s.cohorts[1].quotas[0].lend = 7; }),
              ElementsAre("GANG053"));
  EXPECT_THAT(code_with([](Snapshot& s) { s.cluster_queues[0].quotas[0].borrow = 11; }),
              ElementsAre("GANG053"));
  // What a department keeps to itself is used before it takes anything from above.
  EXPECT_THAT(code_with([](Snapshot& s) {
                s.cohorts[1].quotas = {gpus(4)};
                s.cohorts[1].quotas[0].lend = 8;
                s.cluster_queues[2].quotas[0].used = 4;
              }),
              IsEmpty());
  EXPECT_THAT(code_with([](Snapshot& s) { s.cluster_queues[2].quotas[0].used = 1; }),
              ElementsAre("GANG054"));
}

TEST(Check, AdmitsNothingToCohortsThatAreEachOthersParents) {
  Snapshot snapshot = tree_of_cohorts();
  snapshot.cohorts.push_back({.name = "org", .parent = "dept-b"});
  Workload workload = two_pods();
  workload.kueue_queue = "team";
  EXPECT_THAT(only(evaluate(snapshot, workload), "GANG052").message,
              HasSubstr("the Cohorts org, dept-b are each other's parents"));
}

TEST(Check, AddsUpQuotasThatStandForNoLimit) {
  Snapshot snapshot = tree_of_cohorts();
  for (ClusterQueueFacts& queue : snapshot.cluster_queues) queue.quotas[0].nominal = INT64_MAX;
  Workload workload = two_pods();
  workload.kueue_queue = "team";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
}

TEST(Check, LooksAtTheFlavorsOfTheNodesThatTheJobAsksFor) {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", true});
  snapshot.local_queues = {{.name = "team", .cluster_queue = "cq"}};
  snapshot.cluster_queues = {queue_of("cq", 16, 16)};
  snapshot.cluster_queues[0].quotas.push_back({.flavor = "a100", .resource = kGpu, .nominal = 16});
  snapshot.flavors = {
      {.name = "f", .node_labels = {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}},
      {.name = "a100", .node_labels = {{"nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"}}}};
  Workload workload = two_pods();
  workload.kueue_queue = "team";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
  workload.request.needs = {{{.key = "nvidia.com/gpu.product", .values = {"NVIDIA-H100-80GB-HBM3"}},
                             {.key = "unknown.to/flavors", .op = "DoesNotExist"}}};
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG054"));
  workload.request.needs.clear();
  workload.asks_topology = true;
  EXPECT_THAT(only(evaluate(snapshot, workload), "GANG053").message, HasSubstr("topologyName"));
  snapshot.flavors[0].topology = "racks";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
}

TEST(Check, CountsWhatVolcanosQueueHolds) {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"scheduling.volcano.sh", "v1beta1", "Queue", "queues", false});
  snapshot.volcano_queues = {
      {.name = "default", .state = "Open", .capability = {{kGpu, 16}}, .allocated = {{kGpu, 8}}}};
  Workload workload = two_pods();
  workload.volcano_queue = "default";
  EXPECT_EQ(only(evaluate(snapshot, workload), "GANG055").severity, Severity::kWarning);
  EXPECT_FALSE(evaluate(snapshot, workload).fits());
  snapshot.volcano_queues[0].allocated.clear();
  EXPECT_THAT(codes(evaluate(snapshot, workload)), IsEmpty());
}

TEST(Check, LooksAtVolcanosQueue) {
  Snapshot snapshot = cluster();
  snapshot.kinds.push_back({"scheduling.volcano.sh", "v1beta1", "Queue", "queues", false});
  snapshot.volcano_queues = {{.name = "default", .state = "Closed", .capability = {{kGpu, 8}}}};
  Workload workload = two_pods();
  workload.volcano_queue = "default";
  EXPECT_THAT(codes(evaluate(snapshot, workload)), ElementsAre("GANG055", "GANG055"));
  workload.volcano_queue = "team";
  EXPECT_THAT(only(evaluate(snapshot, workload), "GANG055").message, HasSubstr("it has default"));
}

TEST(Check, SaysThatNothingStartsPodsTogether) {
  Snapshot snapshot = cluster();
  snapshot.kinds.clear();
  EXPECT_THAT(codes(evaluate(snapshot, two_pods())), ElementsAre("GANG050"));
}

TEST(Check, TellsWhatTheServerRefuses) {
  Snapshot snapshot = cluster();
  snapshot.refusals = {{"Job llm", "violates PodSecurity"}};
  snapshot.namespace_exists = false;
  snapshot.priority_classes = {{.name = "low"}};
  Workload workload = two_pods();
  workload.priority_class = "high";
  workload.scheduler = "volcano";
  EXPECT_THAT(codes(evaluate(snapshot, workload)),
              ElementsAre("SCHED059", "SCHED059", "SCHED058", "SCHED060"));
}

TEST(Check, IsLessSureWhereItDoesNotSeeAllPods) {
  Snapshot snapshot = cluster();
  snapshot.sees_all_pods = false;
  snapshot.nodes.pop_back();
  EXPECT_LT(only(evaluate(snapshot, two_pods()), "SCHED050").confidence, 1);
}

TEST(Check, HasAPageForEachCodeInBothLanguages) {
  for (const char* code :
       {"SCHED050", "SCHED051", "SCHED052", "SCHED053", "SCHED054", "SCHED055", "SCHED056",
        "SCHED057", "SCHED058", "SCHED059", "SCHED060", "SCHED061", "SCHED062", "GPU050",
        "GPU051",   "GPU052",   "GPU053",   "STO050",   "STO051",   "STO052",   "STO053",
        "STO054",   "IMG050",   "IMG051",   "POD050",   "GANG050",  "GANG051",  "GANG052",
        "GANG053",  "GANG054",  "GANG055",  "GANG056"}) {
    EXPECT_NE(find_cause(code, Language::kEnglish), nullptr) << code;
    EXPECT_NE(find_cause(code, Language::kChinese), nullptr) << code;
  }
}

// --- what waits ---

json pod(const std::string& name, json status, json spec = json::object()) {
  status["phase"] = "Pending";
  return {{"kind", "Pod"}, {"metadata", {{"name", name}}}, {"spec", spec}, {"status", status}};
}

std::vector<std::string> waiting_codes(const Waiting& waiting) {
  std::vector<std::string> out;
  for (const Finding& finding : waiting_findings(waiting)) out.push_back(finding.code);
  return out;
}

TEST(Pending, ReadsConditionsAndWaitingContainers) {
  const json unscheduled = {{"conditions", {{{"type", "PodScheduled"}, {"status", "False"}}}}};
  EXPECT_THAT(waiting_codes({.pods = {pod("p", unscheduled)}}), IsEmpty());
  EXPECT_THAT(waiting_codes({.pods = {pod("p", json::object())}}), ElementsAre("SCHED060"));
  const json pulling = {
      {"containerStatuses",
       {{{"image", "x:1"},
         {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "not found"}}}}}}}}};
  const json placed = {{"nodeName", "a"}};
  const auto findings =
      waiting_findings({.pods = {pod("p", pulling, placed), pod("q", pulling, placed)}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].code, "IMG051");
  EXPECT_THAT(findings[0].subject.pods, ElementsAre("p", "q"));
  const json gated = {{"schedulingGates", {{{"name", "kueue.x-k8s.io/admission"}}}}};
  EXPECT_THAT(waiting_codes({.pods = {pod("p", unscheduled, gated)}}), ElementsAre("SCHED061"));
}

TEST(Pending, ReadsWhatDecides) {
  const json workload = {
      {"kind", "Workload"},
      {"metadata", {{"name", "w"}}},
      {"spec", {{"queueName", "team"}}},
      {"status",
       {{"conditions",
         {{{"type", "QuotaReserved"}, {"status", "False"}, {"message", "16 more needed"}}}}}}};
  const auto findings = waiting_findings({.deciders = {workload}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].code, "GANG054");
  EXPECT_EQ(findings[0].evidence[0].text, "16 more needed");
  const json group = {
      {"kind", "PodGroup"},
      {"metadata", {{"name", "g"}}},
      {"status",
       {{"phase", "Inqueue"},
        {"conditions", {{{"type", "Unschedulable"}, {"status", "True"}, {"message", "2/5"}}}}}}};
  EXPECT_THAT(waiting_codes({.deciders = {group}}), ElementsAre("GANG056"));
  const json suspended = {
      {"kind", "Job"}, {"metadata", {{"name", "j"}}}, {"spec", {{"suspend", true}}}};
  EXPECT_THAT(waiting_codes({.deciders = {suspended}}), ElementsAre("SCHED061"));
}

TEST(Pending, ReadsEventsOncePerReason) {
  const auto event = [](const char* reason, const char* message) {
    return json{{"reason", reason}, {"message", message}, {"involvedObject", {{"name", "p"}}}};
  };
  EXPECT_THAT(
      waiting_codes({.events = {event("FailedScheduling", "0/4 nodes"),
                                event("FailedScheduling", "0/3 nodes"), event("FailedMount", "x"),
                                event("FailedCreate", "y"), event("Scheduled", "z")}}),
      ElementsAre("SCHED062", "STO053", "SCHED058"));
}

TEST(Pending, AsksForWhatHasNoNodeYet) {
  const json spec = {{"containers", {{{"resources", {{"limits", {{kGpu, "8"}}}}}}}}};
  json placed = spec;
  placed["nodeName"] = "a";
  const Waiting waiting{.pods = {pod("p", json::object(), spec), pod("q", json::object(), placed)}};
  EXPECT_EQ(waiting_workload(waiting, "llm", "ml").pods(), 1U);
}

TEST(Pending, FindsSetsOfOthersKinds) {
  const json pod_template = {
      {"spec", {{"containers", {{{"name", "c"}, {"resources", {{"limits", {{kGpu, "8"}}}}}}}}}}};
  const json set = {{"apiVersion", "apps/v1"},
                    {"kind", "StatefulSet"},
                    {"metadata", {{"name", "s"}}},
                    {"spec", {{"replicas", 3}, {"template", pod_template}}}};
  EXPECT_EQ(waiting_workload({.deciders = {set}}, "s", "ml").pods(), 3U);
  const json leaders = {
      {"apiVersion", "leaderworkerset.x-k8s.io/v1"},
      {"kind", "LeaderWorkerSet"},
      {"metadata", {{"name", "l"}}},
      {"spec",
       {{"replicas", 2},
        {"leaderWorkerTemplate", {{"size", 4}, {"workerTemplate", pod_template}}}}}};
  json made = set;  // by the LeaderWorkerSet, for its leaders
  made["metadata"] = {{"name", "l"},
                      {"ownerReferences", {{{"kind", "LeaderWorkerSet"}, {"name", "l"}}}}};
  const Workload waiting = waiting_workload({.deciders = {leaders, made}}, "l", "ml");
  EXPECT_EQ(waiting.pods(), 8U);
  EXPECT_EQ(waiting.total().at(kGpu), 64);
}

TEST(Pending, CountsPodsThatAreYetToComeOnce) {
  const json pod_template = {
      {"spec", {{"containers", {{{"name", "node"}, {"resources", {{"limits", {{kGpu, "8"}}}}}}}}}}};
  const auto owned = [](const char* kind, const char* name) {
    return json{{"name", name}, {"kind", kind}};
  };
  const json train_job = {{"apiVersion", "trainer.kubeflow.org/v1alpha1"},
                          {"kind", "TrainJob"},
                          {"metadata", {{"name", "x"}}},
                          {"spec", {{"trainer", {{"numNodes", 2}}}}}};
  const json job_set = {
      {"apiVersion", "jobset.x-k8s.io/v1alpha2"},
      {"kind", "JobSet"},
      {"metadata", {{"name", "x"}, {"ownerReferences", {owned("TrainJob", "x")}}}},
      {"spec",
       {{"replicatedJobs",
         {{{"name", "node"},
           {"template", {{"spec", {{"parallelism", 2}, {"template", pod_template}}}}}}}}}}};
  const json job = {
      {"apiVersion", "batch/v1"},
      {"kind", "Job"},
      {"metadata", {{"name", "x-node-0"}, {"ownerReferences", {owned("JobSet", "x")}}}},
      {"spec", {{"parallelism", 2}, {"template", pod_template}}}};
  const Workload all = waiting_workload({.deciders = {job, train_job, job_set}}, "x", "ml");
  EXPECT_EQ(all.pods(), 2U);
  EXPECT_EQ(all.total().at(kGpu), 16);
  EXPECT_EQ(waiting_workload({.deciders = {job}}, "x", "ml").pods(), 2U);
  const json volcano = {{"apiVersion", "batch.volcano.sh/v1alpha1"},
                        {"kind", "Job"},
                        {"metadata", {{"name", "v"}}},
                        {"spec", {{"tasks", {{{"replicas", 3}, {"template", pod_template}}}}}}};
  EXPECT_EQ(waiting_workload({.deciders = {volcano}}, "v", "ml").pods(), 3U);
}

TEST(Pending, HasNothingToSayOfPodsThatHaveTheirNodes) {
  const CheckReport report = evaluate_pending(cluster(), {.name = "llm"}, {});
  EXPECT_FALSE(report.has_problems());
  EXPECT_THAT(report_text(report, false, 0), HasSubstr("no pod of llm waits"));
  const CheckReport trouble = evaluate_pending(cluster(), {.name = "llm"},
                                               {{.code = "IMG051", .severity = Severity::kError}});
  EXPECT_TRUE(trouble.has_problems());
  EXPECT_THAT(report_text(trouble, false, 0), HasSubstr("IMG051"));
}

}  // namespace
}  // namespace shanty::check
