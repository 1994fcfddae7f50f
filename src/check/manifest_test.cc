#include "check/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "check/objects.h"

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
    static_cast<void>(read_flavor(each));
    static_cast<void>(read_volcano_queue(each));
    static_cast<void>(workload_of(std::vector<json>{each}, "ml"));
  }
}

}  // namespace
}  // namespace shanty::check
