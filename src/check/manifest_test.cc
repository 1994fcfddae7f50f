#include "check/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "check/objects.h"
#include "check/trainer.h"

namespace shanty::check {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kGpu = "nvidia.com/gpu";

Workload read(const std::string& text) {
  const auto objects = parse_manifests(text, "x.yaml");
  EXPECT_TRUE(objects.ok()) << (objects.ok() ? "" : objects.error().message);
  const auto workload = workload_of(*objects, "ml");
  EXPECT_TRUE(workload.ok()) << (workload.ok() ? "" : workload.error().message);
  return workload.ok() ? *workload : Workload{};
}

const std::string kTemplate = R"({spec: {
  tolerations: [{key: nvidia.com/gpu, operator: Exists}],
  nodeSelector: {nvidia.com/gpu.product: H100},
  schedulerName: volcano, priorityClassName: high,
  imagePullSecrets: [{name: registry}],
  volumes: [{name: c, persistentVolumeClaim: {claimName: ckpt}},
            {name: d, persistentVolumeClaim: {claimName: data}}, {name: e, emptyDir: {}}],
  containers: [{name: t, image: "i:1", volumeMounts: [{name: c, mountPath: /c},
                {name: d, mountPath: /d, readOnly: true}],
                resources: {limits: {nvidia.com/gpu: 8, cpu: "32", memory: 256Gi}}}]}})";

void expect_eight_gpus(const Workload& workload, uint64_t pods) {
  ASSERT_FALSE(workload.request.groups.empty());
  EXPECT_EQ(workload.pods(), pods);
  EXPECT_EQ(workload.request.groups[0].per_pod.at(kGpu), 8);
}

TEST(Manifests, GiveTheRulesAboutNeighbours) {
  const Workload workload = read(R"({apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {
    parallelism: 2, template: {metadata: {labels: {app: train, role: w}}, spec: {
      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: x}}},
        {topologyKey: rack, namespaces: [a], matchLabelKeys: [role],
         labelSelector: {matchExpressions: [{key: app, operator: In, values: [noisy]}]}}]}},
      topologySpreadConstraints: [
        {topologyKey: zone, maxSkew: 2, minDomains: 3, whenUnsatisfiable: DoNotSchedule,
         nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: train}}},
        {topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}],
      resourceClaims: [{name: g}],
      containers: [{name: t, image: i}]}}}})");
  const FitRequest& request = workload.request;
  EXPECT_EQ(request.labels.at("app"), "train");
  EXPECT_EQ(request.labels.at("job-name"), "x");
  ASSERT_EQ(request.apart.size(), 2U);
  EXPECT_EQ(request.apart[0].topology_key, "kubernetes.io/hostname");
  EXPECT_THAT(request.apart[1].namespaces, ElementsAre("a"));
  ASSERT_EQ(request.apart[1].selector->size(), 2U);
  EXPECT_THAT(request.apart[1].selector->back().values, ElementsAre("w"));
  ASSERT_EQ(request.spread.size(), 1U);
  EXPECT_EQ(request.spread[0].max_skew, 2);
  EXPECT_EQ(request.spread[0].min_domains, 3U);
  EXPECT_TRUE(request.spread[0].honors_taints);
  EXPECT_TRUE(workload.claims_devices);
}

TEST(Manifests, GiveWhatEachKindAsksFor) {
  const std::string head = "metadata: {name: x}\n";
  const struct {
    std::string text;
    uint64_t pods;
  } cases[] = {
      {"apiVersion: batch/v1\nkind: Job\n" + head +
           "spec: {parallelism: 4, template: " + kTemplate + "}",
       4},
      {"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n" + head +
           "spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: " + kTemplate +
           "}, Worker: {replicas: 3, template: " + kTemplate + "}}}",
       4},
      {"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" + head +
           "spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 2, "
           "template: " +
           kTemplate + "}}}]}",
       4},
      {"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n" + head +
           "spec: {queue: team, tasks: [{name: w, replicas: 4, template: " + kTemplate + "}]}",
       4},
      {"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n" + head +
           "spec: {trainer: {numNodes: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}}",
       4},
      {"apiVersion: ray.io/v1\nkind: RayJob\n" + head +
           "spec: {rayClusterSpec: {headGroupSpec: {template: {spec: {containers: [{name: h}]}}}, "
           "workerGroupSpecs: [{groupName: w, replicas: 4, template: " +
           kTemplate + "}]}}",
       5},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.text);
    expect_eight_gpus(read(each.text), each.pods);
  }
}

// A runtime with an initializer beside the nodes.
const std::string kRuntime = R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: big}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  podGroupPolicy: {volcano: {}}
  template:
    metadata: {annotations: {scheduling.volcano.sh/queue-name: team}}
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: dataset-initializer, image: i}]}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                tolerations: [{key: a, operator: Exists}]
                nodeSelector: {pool: gpu}
                priorityClassName: high
                containers:
                - {name: node, image: i, resources: {limits: {nvidia.com/gpu: 4, cpu: 8}}}
---
)";

TEST(TrainJobs, AreWhatTheirRuntimeSays) {
  const std::string job =
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: x}\n";
  const Workload plain = read(kRuntime + job + "spec: {runtimeRef: {name: big}}\n");
  EXPECT_EQ(plain.pods(), 3U);
  EXPECT_EQ(plain.request.groups[0].pods, 2U);
  EXPECT_EQ(plain.request.groups[0].per_pod.at(kGpu), 4);
  EXPECT_EQ(plain.priority_class, "high");
  EXPECT_TRUE(plain.gang);
  EXPECT_EQ(plain.volcano_queue, "team");
  ASSERT_EQ(plain.request.needs.size(), 1U);
  EXPECT_EQ(plain.request.needs[0][0].key, "pool");
  const Workload own =
      read(kRuntime + job +
           "spec: {runtimeRef: {name: big}, trainer: {numNodes: 5, image: j, resourcesPerNode: "
           "{limits: {nvidia.com/gpu: 8}}}}\n");
  EXPECT_EQ(own.request.groups[0].pods, 5U);
  EXPECT_EQ(own.request.groups[0].per_pod.at(kGpu), 8);
}

TEST(TrainJobs, ArePlacedByThePatchesOfEachVersion) {
  const char* patches[] = {
      "podSpecOverrides: [{targetJobs: [{name: node}], tolerations: [{key: b}], "
      "nodeSelector: {rack: r1}}]",
      "podTemplateOverrides: [{targetJobs: [{name: node}], spec: {tolerations: [{key: b}], "
      "nodeSelector: {rack: r1}}}]",
      "runtimePatches: [{manager: m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: "
      "[{name: node, template: {spec: {template: {spec: {tolerations: [{key: b}], nodeSelector: "
      "{rack: r1}}}}}}]}}}}]"};
  for (const char* patch : patches) {
    SCOPED_TRACE(patch);
    const Workload workload = read(kRuntime +
                                   "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n"
                                   "metadata: {name: x}\nspec: {runtimeRef: {name: big}, " +
                                   patch + "}\n");
    EXPECT_TRUE(tolerates(workload.request.tolerations, {"a", "x", "NoSchedule"}));
    EXPECT_TRUE(tolerates(workload.request.tolerations, {"b", "", "NoSchedule"}));
    ASSERT_EQ(workload.request.needs.size(), 1U);
    EXPECT_EQ(workload.request.needs[0].size(), 2U);
  }
}

TEST(TrainJobs, NameTheRuntimesThatAreNotThere) {
  const auto names = [](const std::string& text) {
    const auto objects = parse_manifests(text, "x");
    return objects.ok() ? missing_runtimes(*objects) : std::vector<RuntimeName>();
  };
  const std::string job =
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: x}\n"
      "spec: {runtimeRef: {name: big}}\n";
  ASSERT_EQ(names(job).size(), 1U);
  EXPECT_EQ(names(job)[0].kind, "ClusterTrainingRuntime");
  EXPECT_TRUE(names(kRuntime + job).empty());
}

TEST(Manifests, PlaceEachGroupWhereItMayRun) {
  const Workload workload = read(
      "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: x}\nspec: {rayClusterSpec: "
      "{headGroupSpec: {template: {spec: {containers: [{name: h, resources: {limits: {cpu: 4}}}]}}}"
      ", workerGroupSpecs: [{groupName: w, replicas: 2, numOfHosts: 2, template: " +
      kTemplate + "}]}}");
  ASSERT_EQ(workload.request.groups.size(), 2U);
  EXPECT_EQ(workload.request.groups[0].pods, 4U);
  EXPECT_FALSE(workload.request.groups[0].placement);
  ASSERT_TRUE(workload.request.groups[1].placement);
  EXPECT_TRUE(workload.request.groups[1].placement->needs.empty());
}

TEST(Manifests, NeedAPlaceInTheTopologyOfTheirOwnPodsOnly) {
  const auto label = [](const std::string& selector) {
    return read(
               "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {parallelism: 2, "
               "completions: 1, template: {metadata: {labels: {app: me}}, spec: {affinity: "
               "{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "
               "rack, labelSelector: {matchLabels: {app: " +
               selector + "}}}]}}, containers: [{name: c}]}}}")
        .request.topology_label;
  };
  EXPECT_EQ(label("me"), "rack");
  EXPECT_EQ(label("cache"), "");
}

TEST(Manifests, NameVolcanosQueueInAPodGroup) {
  const std::string group =
      "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: x}\n"
      "spec: {minMember: 2, queue: team}\n---\n";
  const std::string pod =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c}]}\n";
  EXPECT_EQ(read(group + pod).volcano_queue, "team");
  EXPECT_TRUE(read(group + pod).gang);
}

TEST(Manifests, GiveWhatTheirPodsNeedBesideRoom) {
  const Workload workload = read(
      "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, namespace: "
      "team, labels: {kueue.x-k8s.io/queue-name: q}}\nspec: "
      "{parallelism: 2, template: " +
      kTemplate + "}");
  EXPECT_EQ(workload.k8s_namespace, "team");
  EXPECT_EQ(workload.kueue_queue, "q");
  EXPECT_TRUE(workload.gang);
  EXPECT_EQ(workload.scheduler, "volcano");
  EXPECT_EQ(workload.priority_class, "high");
  EXPECT_THAT(workload.pull_secrets, ElementsAre("registry"));
  ASSERT_EQ(workload.claims.size(), 2U);
  EXPECT_FALSE(workload.claims[0].read_only);
  EXPECT_TRUE(workload.claims[0].many_nodes);
  EXPECT_TRUE(workload.claims[1].read_only);
  ASSERT_EQ(workload.request.needs.size(), 1U);
  EXPECT_EQ(workload.request.needs[0][0].key, "nvidia.com/gpu.product");
  EXPECT_TRUE(tolerates(workload.request.tolerations, {kGpu, "present", "NoSchedule"}));
  EXPECT_EQ(workload.request.groups[0].per_pod.at("cpu"), 32000);
  EXPECT_EQ(workload.request.groups[0].per_pod.at("memory"), int64_t{256} << 30);
}

TEST(Manifests, MountAClaimTwiceInOnePod) {
  const std::string mounts =
      "volumes: [{name: a, persistentVolumeClaim: {claimName: c}}, {name: b, "
      "persistentVolumeClaim: {claimName: c}}], initContainers: [{name: i, volumeMounts: [{name: "
      "b, mountPath: /b}]}], containers: [{name: t, volumeMounts: [{name: a, mountPath: /a, "
      "readOnly: true}, {name: b, mountPath: /b, readOnly: true}]}]";
  const std::string pod =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {" + mounts + "}\n";
  const Workload one = read(pod);
  ASSERT_EQ(one.claims.size(), 1U);
  EXPECT_FALSE(one.claims[0].many_nodes);
  EXPECT_FALSE(one.claims[0].read_only);
  EXPECT_TRUE(read(pod + "---\n" + pod).claims[0].many_nodes);
}

TEST(Manifests, AreReadOfSetsThatServeModels) {
  const std::string spec =
      "{spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}";
  expect_eight_gpus(read("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\n"
                         "spec: {replicas: 2, template: " +
                         spec + "}\n"),
                    2);
  const std::string group =
      "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: x}\n"
      "spec: {replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: " +
      spec;
  expect_eight_gpus(read(group + "}}\n"), 6);
  const Workload own_leader =
      read(group +
           ", leaderTemplate: {spec: {containers: [{name: l, resources: {limits: {cpu: 4}}}]}}}}");
  ASSERT_EQ(own_leader.request.groups.size(), 2U);
  EXPECT_EQ(own_leader.request.groups[0].pods, 4U);
  EXPECT_EQ(own_leader.request.groups[1].pods, 2U);
}

TEST(Manifests, KeepTheClaimsOfEachGroup) {
  const auto pod = [](const char* name, const char* claim) {
    return std::string("apiVersion: v1\nkind: Pod\nmetadata: {name: ") + name +
           "}\nspec: {volumes: [{name: v, persistentVolumeClaim: {claimName: " + claim +
           "}}], containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}\n---\n";
  };
  const Workload workload = read(pod("x", "a") + pod("y", "b") + pod("z", "a"));
  ASSERT_EQ(workload.request.groups.size(), 2U);
  EXPECT_EQ(workload.request.groups[0].pods, 2U);
  EXPECT_EQ(workload.request.groups[0].claims, std::vector<std::string>{"a"});
  EXPECT_EQ(workload.request.groups[1].claims, std::vector<std::string>{"b"});
}

TEST(Manifests, PutPodsOfOneFileTogether) {
  const std::string pod =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: "
      "[{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}\n";
  const std::string service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
  expect_eight_gpus(read(service + "---\n" + pod + "---\n" + pod), 2);
  EXPECT_EQ(read(service + "---\n" + pod).kind, "Pod");
}

TEST(Manifests, SayWhatIsWrong) {
  EXPECT_THAT(parse_manifests("a: [", "x.yaml").error().message, HasSubstr("x.yaml:2"));
  EXPECT_FALSE(workload_of({}, "ml").ok());
  EXPECT_TRUE(is_manifest("apiVersion: v1\nkind: Pod\n"));
  EXPECT_FALSE(is_manifest("run: {script: x.py}\n"));
  EXPECT_FALSE(is_manifest("["));
}

TEST(Manifests, KeepTheTypesOfYaml) {
  const auto objects = parse_manifests(
      "{a: 1, b: '1', c: true, d: 1.5, e: null, f: text, g: [x], h: 0123x, i: -7, j: v1, k: .}",
      "x");
  ASSERT_TRUE(objects.ok());
  EXPECT_EQ((*objects)[0], (json{{"a", 1},
                                 {"b", "1"},
                                 {"c", true},
                                 {"d", 1.5},
                                 {"e", nullptr},
                                 {"f", "text"},
                                 {"g", {"x"}},
                                 {"h", "0123x"},
                                 {"i", -7},
                                 {"j", "v1"},
                                 {"k", "."}}));
}

TEST(Manifests, ReadScalarsAsKubectlDoes) {
  const auto objects = parse_manifests(
      "{a: 0755, b: 0o755, c: 0x1ed, d: True, e: FALSE, f: -010, g: 08, h: '0755', i: +3, j: 0, "
      "k: &x {y: 1}, l: *x, m: {<<: *x, z: 2}}",
      "x");
  ASSERT_TRUE(objects.ok()) << objects.error().message;
  EXPECT_EQ((*objects)[0], (json{{"a", 493},
                                 {"b", 493},
                                 {"c", 493},
                                 {"d", true},
                                 {"e", false},
                                 {"f", -8},
                                 {"g", 8.0},
                                 {"h", "0755"},
                                 {"i", 3},
                                 {"j", 0},
                                 {"k", {{"y", 1}}},
                                 {"l", {{"y", 1}}},
                                 {"m", {{"y", 1}, {"z", 2}}}}));
}

TEST(PodRequests, TakeWhatThePodAsAWholeSays) {
  json spec = {
      {"resources", {{"requests", {{"cpu", "6"}}}, {"limits", {{"memory", "8Gi"}}}}},
      {"containers", {{{"resources", {{"requests", {{"cpu", "1"}}}, {"limits", {{kGpu, "2"}}}}}}}}};
  Amounts amounts = pod_requests(spec);
  EXPECT_EQ(amounts.at("cpu"), 6000);
  EXPECT_EQ(amounts.at("memory"), int64_t{8} << 30);
  EXPECT_EQ(amounts.at(kGpu), 2);
  EXPECT_EQ(pod_limits(spec).at("memory"), int64_t{8} << 30);
  EXPECT_FALSE(pod_limits(spec).contains("cpu"));
  spec["containers"][0]["resources"]["requests"]["memory"] = "1Gi";
  EXPECT_EQ(pod_requests(spec).at("memory"), int64_t{1} << 30);
}

TEST(PodRequests, CountInitContainersAndSidecarsAsTheSchedulerDoes) {
  const json spec = {{"initContainers",
                      {{{"restartPolicy", "Always"}, {"resources", {{"requests", {{"cpu", "1"}}}}}},
                       {{"resources", {{"requests", {{"cpu", "8"}, {"memory", "1Gi"}}}}}}}},
                     {"containers", {{{"resources", {{"requests", {{"cpu", "2"}}}}}}}},
                     {"overhead", {{"cpu", "250m"}}}};
  const Amounts amounts = pod_requests(spec);
  EXPECT_EQ(amounts.at("cpu"), 9250);
  EXPECT_EQ(amounts.at("memory"), int64_t{1} << 30);
}

TEST(Objects, SayFromWhichNodesAVolumeIsReached) {
  const json volume = {
      {"spec",
       {{"nodeAffinity",
         {{"required",
           {{"nodeSelectorTerms",
             {{{"matchExpressions",
                {{{"key", "zone"}, {"operator", "In"}, {"values", {"a", "b"}}}}}},
              {{"matchFields",
                {{{"key", "metadata.name"}, {"operator", "In"}, {"values", {"gpu-7"}}}}}}}}}}}}}}};
  const NeedSets sets = read_volume_nodes(volume);
  const json named = {{"metadata", {{"name", "gpu-7"}}}};
  EXPECT_TRUE(meets_any(read_node(named).fit.labels, sets));
  EXPECT_TRUE(meets_any({{"zone", "b"}}, sets));
  EXPECT_FALSE(meets_any({{"zone", "c"}}, sets));
  EXPECT_TRUE(read_volume_nodes(json::object()).empty());
  EXPECT_EQ(read_claim({{"spec", {{"volumeName", "pv"}}}}).volume, "pv");
}

TEST(Objects, NameTheTopmostOwnerOfAPodThatIsKnown) {
  const auto owner = [](const char* kind, const char* name, json labels) {
    return read_pod(
               {{"metadata",
                 {{"name", "p"},
                  {"labels", std::move(labels)},
                  {"ownerReferences", {{{"kind", kind}, {"name", name}, {"controller", true}}}}}}})
        ->owner;
  };
  EXPECT_EQ(owner("StatefulSet", "db", json::object()), "StatefulSet db");
  EXPECT_EQ(owner("StatefulSet", "vllm", {{"leaderworkerset.sigs.k8s.io/name", "vllm"}}),
            "LeaderWorkerSet vllm");
  EXPECT_EQ(owner("Job", "x-w-0", {{"jobset.sigs.k8s.io/jobset-name", "x"}}), "JobSet x");
  EXPECT_EQ(owner("ReplicaSet", "web-5d4f", {{"pod-template-hash", "5d4f"}}), "Deployment web");
  EXPECT_EQ(owner("ReplicaSet", "own", json::object()), "ReplicaSet own");
  EXPECT_EQ(
      owner("RayCluster", "tune-abc12",
            {{"ray.io/originated-from-cr-name", "tune"}, {"ray.io/originated-from-crd", "RayJob"}}),
      "RayJob tune");
}

TEST(Objects, ReadTheQuotasOfCohorts) {
  const CohortFacts facts = read_cohort(
      {{"metadata", {{"name", "dept"}}},
       {"spec",
        {{"parentName", "org"},
         {"resourceGroups",
          {{{"flavors",
             {{{"name", "f"},
               {"resources",
                {{{"name", kGpu}, {"nominalQuota", "8"}, {"borrowingLimit", 4}}}}}}}}}}}}});
  EXPECT_EQ(facts.parent, "org");
  ASSERT_EQ(facts.quotas.size(), 1U);
  EXPECT_EQ(facts.quotas[0].nominal, 8);
  EXPECT_EQ(facts.quotas[0].borrow, 4);
  EXPECT_FALSE(facts.quotas[0].lend);
}

TEST(Objects, SurviveWhateverTheyAreGiven) {
  const json odd[] = {nullptr,
                      7,
                      "text",
                      json::array({1, 2}),
                      json::object(),
                      {{"metadata", 7}, {"spec", "x"}, {"status", json::array()}},
                      {{"spec", {{"taints", {1, 2}}, {"containers", {7, nullptr}}}},
                       {"metadata", {{"labels", {{"a", 7}}}}}}};
  for (const json& each : odd) {
    static_cast<void>(read_node(each));
    static_cast<void>(read_pod(each));
    static_cast<void>(read_claim(each));
    static_cast<void>(read_quota(each));
    static_cast<void>(read_limits(each));
    static_cast<void>(read_local_queue(each));
    static_cast<void>(read_cluster_queue(each, {}));
    static_cast<void>(read_cohort(each));
    static_cast<void>(read_volume_nodes(each));
    static_cast<void>(read_flavor(each));
    static_cast<void>(read_volcano_queue(each));
    static_cast<void>(workload_of(std::vector<json>{each}, "ml"));
  }
}

}  // namespace
}  // namespace shanty::check
