#include "render/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/parse.h"
#include "render/gpu_model.h"
#include "render/pod.h"
#include "render/shell.h"

namespace shanty {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Job job_of(const std::string& text) {
  ParsedJob parsed = parse_job(text, "job.yaml");
  EXPECT_TRUE(parsed.ok());
  return parsed.job;
}

const char* const kTwoNodes = "job: two\nrun: {script: t.py, image: i}\nnodes: 2\n";

Result<Rendered> render(const Job& job, const KubernetesOffer& offer, RenderOptions options = {}) {
  options.token = "a-token-of-a-test";
  return render_job(job, make_plan(job, Cluster{}), offer, options);
}

std::string text_of(const Result<Rendered>& rendered) {
  std::string all;
  if (!rendered.ok()) return rendered.error().message;
  for (const RenderedObject& object : rendered->objects) all += object.text + "---\n";
  return all;
}

TEST(KubernetesName, IsALabelWithRoomForWhatOperatorsAppend) {
  EXPECT_EQ(kubernetes_name("resnet-train"), "resnet-train");
  EXPECT_EQ(kubernetes_name("ResNet_50.v2"), "resnet-50-v2");
  EXPECT_EQ(kubernetes_name("7b"), "job-7b");
  EXPECT_EQ(kubernetes_name("a--_"), "a");
  const std::string long_a = kubernetes_name(std::string(50, 'x') + "a");
  const std::string long_b = kubernetes_name(std::string(50, 'x') + "b");
  EXPECT_LE(long_a.size(), 40u);
  EXPECT_NE(long_a, long_b);
}

TEST(Quantity, IsExactAndShort) {
  EXPECT_EQ(quantity(64ull << 30), "64Gi");
  EXPECT_EQ(quantity(512'000'000'000), "512G");
  EXPECT_EQ(quantity(1536ull << 20), "1536Mi");
  EXPECT_EQ(quantity(1500), "1500");
}

TEST(ShellWord, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(shell_word("/mnt/data:ro"), "/mnt/data:ro");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$(x)'y"), "'$(x)'\\''y'");
}

TEST(GpuProducts, AreWholeOnesUnlessAPartIsAskedFor) {
  KubernetesOffer offer;
  for (const char* product : {"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
                              "NVIDIA-A100-SXM4-40GB-SHARED"}) {
    offer.gpu_models.push_back({.product = product});
  }
  EXPECT_THAT(gpu_products("a100", offer), ElementsAre("NVIDIA-A100-SXM4-40GB"));
  EXPECT_THAT(gpu_products("a100-shared", offer), ElementsAre("NVIDIA-A100-SXM4-40GB-SHARED"));
  EXPECT_THAT(gpu_products("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", offer), SizeIs(1));
}

TEST(RenderJob, AsksKueueOnlyForALevelByWhichItPlacesPods) {
  KubernetesOffer offer = newest_kubernetes_offer();
  offer.gangs = {GangMechanism::kKueue};
  offer.local_queues = {"q"};
  const Job job = job_of(std::string(kTwoNodes) + "schedule: {queue: q, topology: a.b/rack}\n");
  const auto not_asked = render(job, offer);
  EXPECT_THAT(text_of(not_asked), HasSubstr("podset-preferred-topology: a.b/rack"));
  EXPECT_THAT(not_asked->notes, ElementsAre(HasSubstr("whose Topology has the level a.b/rack")));
  offer.kueue_levels = {"a.b/rack"};
  EXPECT_THAT(text_of(render(job, offer)), HasSubstr("podset-preferred-topology: a.b/rack"));
  offer.kueue_levels->clear();
  const std::string text = text_of(render(job, offer));
  EXPECT_THAT(text, Not(HasSubstr("podset-")));
  EXPECT_THAT(text, HasSubstr("topologyKey: a.b/rack"));
}

TEST(RenderJob, SaysWhichPathsArePodsOwn) {
  const KubernetesOffer offer = newest_kubernetes_offer();
  const auto with = [&](const std::string& mounts) {
    return text_of(render(job_of(std::string(kTwoNodes) + mounts), offer));
  };
  EXPECT_THAT(with("data: [{claim: a, mount: /dev/shm}]\n"),
              HasSubstr("data[].mount: at /dev/shm the pods have shared memory"));
  EXPECT_THAT(with("data: [{claim: a, mount: /a, stage: /s}, {claim: b, mount: /b, stage: /s}]\n"),
              HasSubstr("data[].stage: at /s the pods have data[].stage"));
  EXPECT_THAT(with("checkpoint: {claim: c, mount: '/a:b'}\n"), HasSubstr("no path with a colon"));
  EXPECT_THAT(with("data: [{claim: a, mount: /dev/shm/x}]\n"), HasSubstr("mountPath: /dev/shm/x"));
}

TEST(RenderJob, TakesNoRdmaForRanksOnCpus) {
  KubernetesOffer offer = newest_kubernetes_offer();
  offer.resources = {{.name = "rdma/hca", .nodes = 4}};
  const std::string gpus(kTwoNodes);
  EXPECT_THAT(text_of(render(job_of(gpus), offer)), HasSubstr("rdma/hca"));
  const std::string text = text_of(render(job_of(gpus + "gpu: {resource: none}\n"), offer));
  EXPECT_THAT(text, Not(HasSubstr("rdma/hca")));
  EXPECT_THAT(text, Not(HasSubstr("IPC_LOCK")));
}

TEST(RenderJob, OpensAPortOfItsOwnOnTheNodesNetwork) {
  const KubernetesOffer offer = newest_kubernetes_offer();
  const std::string job = std::string(kTwoNodes) + "network: {host_network: true}\n";
  const std::string text = text_of(render(job_of(job), offer, {.target = "pytorchjob"}));
  EXPECT_THAT(text, HasSubstr("name: pytorchjob-port\n"));
  EXPECT_THAT(text, Not(HasSubstr("containerPort: 23456\n")));
  EXPECT_THAT(text_of(render(job_of(kTwoNodes), offer, {.target = "pytorchjob"})),
              Not(HasSubstr("pytorchjob-port")));
}

TEST(GpuProducts, AreThoseOfTheClusterElseThoseKnown) {
  KubernetesOffer offer;
  EXPECT_THAT(gpu_products("a100-80g", offer),
              ElementsAre("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"));
  EXPECT_THAT(gpu_products("h100 sxm", offer), IsEmpty());
  EXPECT_THAT(gpu_products("v100-sxm", offer), SizeIs(2));
  EXPECT_THAT(gpu_products("h200", offer), ElementsAre("NVIDIA-H200", "NVIDIA-H200-NVL"));
  EXPECT_THAT(gpu_products("NVIDIA-New-GPU", offer), ElementsAre("NVIDIA-New-GPU"));
  EXPECT_THAT(gpu_products("unheard-of", offer), IsEmpty());
  offer.gpu_models = {{.product = "NVIDIA-H100-80GB-HBM3"}, {.product = "NVIDIA-L40S"}};
  EXPECT_THAT(gpu_products("H100", offer), ElementsAre("NVIDIA-H100-80GB-HBM3"));
}

TEST(RenderJob, TakesTheGangThatTheClusterOffers) {
  KubernetesOffer offer = newest_kubernetes_offer();
  const Job job = job_of(kTwoNodes);
  EXPECT_THAT(text_of(render(job, offer)), Not(HasSubstr("PodGroup")));
  offer.gangs = {GangMechanism::kCoscheduling, GangMechanism::kKueue};
  offer.coscheduling_scheduler = "our-scheduler";
  const std::string text = text_of(render(job, offer));
  EXPECT_THAT(text, HasSubstr("scheduling.x-k8s.io/v1alpha1"));
  EXPECT_THAT(text, HasSubstr("schedulerName: our-scheduler"));
  EXPECT_THAT(text, Not(HasSubstr("kueue")));
  EXPECT_THAT(text_of(render(job_of("job: one\nrun: {script: t.py, image: i}\n"), offer)),
              Not(HasSubstr("PodGroup")));
}

TEST(RenderJob, TakesKueueOnlyThroughALocalQueueThatIsThere) {
  KubernetesOffer offer = newest_kubernetes_offer();
  offer.gangs = {GangMechanism::kKueue, GangMechanism::kNative};
  const auto with = [&](const char* schedule, std::vector<std::string> queues) {
    offer.local_queues = std::move(queues);
    return render(job_of(std::string(kTwoNodes) + "schedule: " + schedule + "\n"), offer);
  };
  const auto label = [](const char* queue) {
    return HasSubstr(std::string("kueue.x-k8s.io/queue-name: ") + queue + "\n");
  };
  EXPECT_THAT(text_of(with("{namespace: ml}", {"a", "default"})), label("default"));
  EXPECT_THAT(text_of(with("{namespace: ml}", {"team"})), label("team"));
  EXPECT_THAT(text_of(with("{queue: b}", {"a", "b"})), label("b"));

  const auto none = with("{namespace: ml}", {});
  EXPECT_THAT(text_of(none), Not(HasSubstr("kueue")));
  EXPECT_THAT(text_of(none), HasSubstr("schedulingGroup"));
  const auto wrong = with("{namespace: ml, queue: c}", {"a", "b"});
  EXPECT_THAT(text_of(wrong), Not(HasSubstr("kueue")));
  ASSERT_TRUE(wrong.ok());
  EXPECT_THAT(wrong->notes, ElementsAre("Kueue has no LocalQueue c in namespace ml, only a, b: the "
                                        "job goes without Kueue"));
  offer.gangs = {GangMechanism::kKueue};
  const auto unsaid = with("{namespace: ml}", {"a", "b"});
  ASSERT_TRUE(unsaid.ok());
  EXPECT_THAT(unsaid->notes, testing::Contains(HasSubstr("schedule.queue says none")));
}

TEST(RenderJob, RefusesKueueWithoutAQueue) {
  KubernetesOffer offer = newest_kubernetes_offer();
  offer.local_queues.emplace();
  EXPECT_THAT(text_of(render(job_of(kTwoNodes), offer, {.gang = GangChoice::kKueue})),
              HasSubstr("--gang kueue: Kueue has no LocalQueue in namespace default"));
}

TEST(RenderJob, TheJobsWordAgainstAGangHolds) {
  KubernetesOffer offer = newest_kubernetes_offer();
  offer.gangs = {GangMechanism::kVolcano};
  const Job job = job_of(std::string(kTwoNodes) + "schedule: {gang: false}\n");
  EXPECT_THAT(text_of(render(job, offer)), Not(HasSubstr("PodGroup")));
}

TEST(RenderJob, TakesTheRdmaAndTheTopologyThatTheClusterHas) {
  KubernetesOffer offer = newest_kubernetes_offer();
  offer.resources = {{.name = "rdma/hca_shared", .nodes = 4, .most_per_node = 63}};
  offer.topology_labels = {"topology.kubernetes.io/zone", "cloud.example/rack"};
  const Job job = job_of(std::string(kTwoNodes) + "schedule: {topology: rack}\n");
  const auto rendered = render(job, offer);
  EXPECT_THAT(text_of(rendered), HasSubstr("rdma/hca_shared: 1"));
  EXPECT_THAT(text_of(rendered), HasSubstr("IPC_LOCK"));
  EXPECT_THAT(text_of(rendered), HasSubstr("topologyKey: cloud.example/rack"));
  const Job off = job_of(std::string(kTwoNodes) + "network: {rdma: false}\n");
  EXPECT_THAT(text_of(render(off, offer)), Not(HasSubstr("rdma/")));
}

TEST(RenderJob, GuessesAreTold) {
  const Job job = job_of(std::string(kTwoNodes) +
                         "network: {rdma: true}\nschedule: {topology: rack, gang: true}\n");
  const auto rendered = render(job, newest_kubernetes_offer());
  ASSERT_TRUE(rendered.ok());
  EXPECT_THAT(rendered->notes, SizeIs(3));
}

TEST(RenderJob, SharedMemoryThatDoesNotFitIsTold) {
  const Job job = job_of(std::string(kTwoNodes) + "pod: {memory: 8Gi}\nloader: {shm: 16Gi}\n");
  const auto rendered = render(job, newest_kubernetes_offer());
  ASSERT_TRUE(rendered.ok());
  EXPECT_THAT(rendered->notes, testing::Contains(HasSubstr("does not fit")));
}

TEST(RenderJob, RunsOfOneJobAreToldApartByTheToken) {
  const Job job = job_of(kTwoNodes);
  const Plan plan = make_plan(job, Cluster{});
  const auto with = [&](const char* token) {
    return text_of(render_job(job, plan, newest_kubernetes_offer(), {.token = token}));
  };
  const auto run_dir = [](const std::string& text) {
    const size_t at = text.find("--run-dir=");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(run_dir(with("one-token-of-a-job")), run_dir(with("one-token-of-a-job")));
  EXPECT_NE(run_dir(with("one-token-of-a-job")), run_dir(with("another-token-of-it")));
}

TEST(RenderJob, ClaimsDevicesWhereTheJobAsksForThem) {
  const Job job =
      job_of(std::string(kTwoNodes) + "gpus_per_node: 4\ngpu: {device_class: gpu.example.com}\n");
  KubernetesOffer offer = newest_kubernetes_offer();
  const std::string text = text_of(render(job, offer));
  EXPECT_THAT(text, HasSubstr("apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n"));
  EXPECT_THAT(text, HasSubstr("exactly:"));
  EXPECT_THAT(text, HasSubstr("count: 4\n"));
  EXPECT_THAT(text, HasSubstr("resourceClaimTemplateName: two\n"));
  EXPECT_THAT(text, Not(HasSubstr("nvidia.com/gpu: ")));
  set_kubernetes_version(offer, {1, 32});
  EXPECT_THAT(text_of(render(job, offer)), Not(HasSubstr("exactly:")));
  EXPECT_THAT(text_of(render_rbac(job, offer, {})), HasSubstr("- resourceclaimtemplates"));
  set_kubernetes_version(offer, {1, 30});
  EXPECT_THAT(text_of(render(job, offer)), HasSubstr("serves no ResourceClaimTemplate"));
  offer = newest_kubernetes_offer();
  offer.device_classes = {"gpu.other.com"};
  EXPECT_THAT(text_of(render(job, offer)),
              HasSubstr("no DeviceClass gpu.example.com; it has gpu.other.com"));
}

TEST(RenderRbac, NamesTheKindsOfTheTarget) {
  const auto rendered =
      render_rbac(job_of(kTwoNodes), newest_kubernetes_offer(), {.target = "trainjob"});
  ASSERT_TRUE(rendered.ok());
  EXPECT_THAT(text_of(rendered), HasSubstr("- trainingruntimes"));
  EXPECT_FALSE(render_rbac(job_of(kTwoNodes), newest_kubernetes_offer(), {.target = "slurm"}).ok());
}

TEST(RenderRbac, HoldsWhatStopNeeds) {
  const auto rights = [](const char* target, GangChoice gang) {
    return text_of(render_rbac(job_of(kTwoNodes), newest_kubernetes_offer(),
                               {.target = target, .gang = gang}));
  };
  EXPECT_THAT(rights("job", GangChoice::kKueue),
              HasSubstr("  - workloads\n  verbs:\n  - list\n  - watch\n  - patch\n"));
  EXPECT_THAT(rights("job", GangChoice::kNone), Not(HasSubstr("workloads")));
  EXPECT_THAT(rights("volcano", GangChoice::kAuto),
              HasSubstr("  - commands\n  verbs:\n  - create\n"));
}

}  // namespace
}  // namespace shanty
