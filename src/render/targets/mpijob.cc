// An MPIJob (v2beta1) whose launcher is node 0 and trains too. Neither mpirun nor sshd takes part:
// each pod runs its own agent, and the launcher's exit is the job's.
#include <algorithm>
#include <cmath>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

// The launcher's Job cannot tell a job that failed from a pod that died.
constexpr uint64_t kMaxLaunchers = 3;

// The pods of its CRD do not have schedulingGroup.
std::vector<GangMechanism> gangs(const KubernetesOffer&) {
  return {GangMechanism::kKueue, GangMechanism::kVolcano, GangMechanism::kCoscheduling};
}

PodFrame frame_of(const RenderContext& c, std::string container) {
  return {.container = std::move(container),
          .master_addr = c.name + "-launcher." + c.name,
          .identity = {{.name = "SHANTY_NODE_RANK",
                        .value = {},
                        .field = "metadata.labels['training.kubeflow.org/replica-index']",
                        .why = "The launcher is 0, the workers count from 1."}},
          .restart_policy = {},
          .why_restart = {},
          .hostname = {},
          .subdomain = {}};
}

Yaml replicas(uint64_t count, const char* restart_policy, std::string why, Yaml templ) {
  Yaml out;
  out.set("replicas", count).set("restartPolicy", restart_policy, std::move(why));
  out.set("template", std::move(templ));
  return out;
}

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  for (Piece& piece : gang_objects(c, c.nodes)) out.push_back(std::move(piece));
  Yaml job = make_object(c, "kubeflow.org/v2beta1", "MPIJob", c.name);
  add_queue(c, job["metadata"]);
  Yaml& spec = job["spec"];
  spec.set("slotsPerWorker", c.processes);
  spec.set(
      "runLauncherAsWorker", true,
      "The launcher is node 0 and trains too. No mpirun, no sshd: each pod runs its agent, and "
      "the end of the launcher is the end of the job.");
  Yaml& policy = spec["runPolicy"];
  policy.set("cleanPodPolicy", "Running", "No pod stays on its GPUs when the job has ended.");
  policy.set("ttlSecondsAfterFinished", static_cast<uint64_t>(std::ceil(c.job.schedule.ttl_s)),
             "Removes the finished job, which would otherwise stay for ever.");
  policy.set("backoffLimit", std::min(c.job.restart.max, kMaxLaunchers),
             "New launchers after one that died. Also after a job that failed for good, so it is "
             "kept low.");
  Yaml& specs = spec["mpiReplicaSpecs"];
  specs.set("Launcher", replicas(1, "Never", "A launcher that died is replaced by another pod.",
                                 pod_template(c, frame_of(c, "launcher"))));
  if (c.nodes > 1) {
    specs.set("Worker",
              replicas(c.nodes - 1, "OnFailure",
                       "A worker that died starts again in its pod and joins the others, which "
                       "wait. The operator itself replaces deleted pods only.",
                       pod_template(c, frame_of(c, "worker"))));
  }
  out.push_back({.stem = "mpijob", .object = job, .text = {}, .file_name = {}});
  return out;
}

}  // namespace

extern const RenderTarget kMpijobTarget = {.name = "mpijob",
                                           .group = "kubeflow.org",
                                           .kind = "MPIJob",
                                           .plural = "mpijobs",
                                           .gangs = gangs,
                                           .render = render};

}  // namespace shanty
