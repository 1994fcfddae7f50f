// A TrainJob of Kubeflow Trainer with a TrainingRuntime of its own. Trainer's one API version,
// v1alpha1, has had four schemas, 2.0 to 2.3; the offer says which is served.
#include <fmt/format.h>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

constexpr MinorVersion kOldest = {2, 0};
constexpr MinorVersion kNewest = {2, 3};
constexpr const char* kApi = "trainer.kubeflow.org/v1alpha1";

MinorVersion version_of(const KubernetesOffer& offer) { return offer.trainer.value_or(kNewest); }

// Volcano since 2.1. The native API needs pods with schedulingGroup, which Trainer knows since its
// libraries are Kubernetes 1.36's.
std::vector<GangMechanism> gangs(const KubernetesOffer& offer) {
  std::vector<GangMechanism> out = {GangMechanism::kKueue, GangMechanism::kCoscheduling};
  if (version_of(offer) >= MinorVersion{2, 1}) out.push_back(GangMechanism::kVolcano);
  if (version_of(offer) >= MinorVersion{2, 3}) out.push_back(GangMechanism::kNative);
  return out;
}

// Trainer makes the PodGroup and its pods members itself; only the scheduler is left to name.
void add_group_policy(const RenderContext& c, Yaml& runtime_spec, Yaml& templ) {
  if (c.gang.is(GangMechanism::kCoscheduling)) {
    runtime_spec["podGroupPolicy"]["coscheduling"].set("scheduleTimeoutSeconds", 120);
  } else if (c.gang.is(GangMechanism::kVolcano)) {
    runtime_spec["podGroupPolicy"].set("volcano", Yaml::mapping());
    if (!c.gang.queue.empty()) {
      runtime_spec["template"]["metadata"]["annotations"].set("scheduling.volcano.sh/queue-name",
                                                              c.gang.queue);
    }
  } else {
    return;
  }
  templ["spec"]["schedulerName"].comment(
      "Trainer makes the PodGroup but leaves the pods to the default scheduler, which does not "
      "know it.");
}

Piece runtime(const RenderContext& c, Yaml templ) {
  Yaml object = make_object(c, kApi, "TrainingRuntime", c.name);
  object["metadata"]["labels"].set("trainer.kubeflow.org/framework", "torch");
  Yaml& spec = object["spec"];
  spec["mlPolicy"].set("numNodes", c.nodes);
  spec["mlPolicy"].set("torch", Yaml::mapping(),
                       "Makes Trainer tell each pod its rank: PET_NODE_RANK, PET_MASTER_ADDR.");
  add_group_policy(c, spec, templ);
  Yaml& jobset = spec["template"]["spec"];
  Yaml job;
  job.set("name", "node",
          "Trainer looks for the master under this name, and for a container of this name.");
  Yaml& inner = job["template"];
  inner["metadata"]["labels"].set("trainer.kubeflow.org/trainjob-ancestor-step", "trainer");
  Yaml job_spec = indexed_job_spec(c, std::move(templ), false);
  inner.set("spec", job_spec);
  jobset["replicatedJobs"].push(job);
  jobset["failurePolicy"].set(
      "maxRestarts", 0,
      "A restart by JobSet would kill all pods. Here ranks are restarted in place and only dead "
      "pods are replaced; when the Job fails, so has the training.");
  return {.stem = "trainingruntime", .object = object, .text = {}, .file_name = {}};
}

// Where the pods may run, in the field that this version of Trainer has for it: it can be changed
// while the job is suspended.
void add_overrides(const RenderContext& c, Yaml& spec, MinorVersion version) {
  if (!has_placement(c)) return;
  Yaml placement;
  add_placement(c, placement);
  if (version >= MinorVersion{2, 2}) {
    Yaml& patch = spec["runtimePatches"].push(Yaml::mapping());
    patch.set("manager", "shanty.dev/render");
    Yaml job;
    job.set("name", "node");
    job["template"]["spec"]["template"].set("spec", placement);
    patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"].push(job);
    return;
  }
  const bool is_2_0 = version == kOldest;
  Yaml& entry = spec[is_2_0 ? "podSpecOverrides" : "podTemplateOverrides"].push(Yaml::mapping());
  entry["targetJobs"].push(Yaml::mapping().set("name", "node"));
  if (!is_2_0) {
    entry.set("spec", placement);
    return;
  }
  for (const char* key : {"nodeSelector", "tolerations"}) {
    if (const Yaml* found = placement.find(key)) entry.set(key, *found);
  }
}

Piece train_job(const RenderContext& c, MinorVersion version) {
  Yaml object = make_object(c, kApi, "TrainJob", c.name);
  add_queue(c, object["metadata"]);
  object.comment("Trainer has no time to live for jobs: a finished one stays until it is deleted.");
  Yaml& spec = object["spec"];
  spec["runtimeRef"].set("apiGroup", "trainer.kubeflow.org");
  spec["runtimeRef"].set("kind", "TrainingRuntime",
                         "The one above; the default kind is ClusterTrainingRuntime.");
  spec["runtimeRef"].set("name", c.name);
  Yaml& trainer = spec["trainer"];
  trainer.comment("Even if it were empty: without this section Trainer tells the pods no ranks.");
  trainer.set("numNodes", c.nodes);
  trainer.set("numProcPerNode", c.processes,
              "With auto, a pod with MIG slices or without GPUs gets a process per CPU.");
  add_overrides(c, spec, version);
  return {.stem = "trainjob", .object = object, .text = {}, .file_name = {}};
}

Result<std::vector<Piece>> render(const RenderContext& c) {
  const MinorVersion version = version_of(c.offer);
  if (version < kOldest || version > kNewest) {
    return Error{fmt::format("Trainer {}.{} is not known; the TrainJob of 2.0 to 2.3 is",
                             version.major, version.minor)};
  }
  std::vector<Piece> out = common_objects(c);
  if (c.gang.is(GangMechanism::kNative)) {
    for (Piece& piece : gang_objects(c, c.nodes)) out.push_back(std::move(piece));
  }
  const PodFrame frame{.container = "node",
                       .master_addr = {},
                       .identity = {},
                       .restart_policy = "Never",
                       .why_restart =
                           "JobSet's default, OnFailure, would run a job once more that "
                           "has failed for good. Ranks are restarted inside the pod.",
                       .hostname = {},
                       .subdomain = {},
                       .placement_elsewhere = true,
                       .operator_makes_gang = true};
  Yaml templ = pod_template(c, frame);
  // 2.0 overrides node labels and taints only.
  if (version == kOldest) {
    Yaml placement;
    add_placement(c, placement);
    if (const Yaml* affinity = placement.find("affinity")) templ["spec"].set("affinity", *affinity);
  }
  out.push_back(runtime(c, std::move(templ)));
  out.push_back(train_job(c, version));
  return out;
}

}  // namespace

extern const RenderTarget kTrainjobTarget = {.name = "trainjob",
                                             .group = "trainer.kubeflow.org",
                                             .kind = "TrainJob",
                                             .plural = "trainjobs",
                                             .gangs = gangs,
                                             .render = render};

}  // namespace shanty
