// A Job of Volcano, which is its own gang: one task, a replica per node.
#include <cmath>

#include <fmt/format.h>

#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

std::vector<GangMechanism> gangs(const KubernetesOffer&) { return {GangMechanism::kVolcano}; }

Yaml on_exit(int code) {
  return Yaml::mapping().set("exitCode", code).set("action", "TerminateJob");
}

// Volcano takes the first policy that fits.
Yaml policies() {
  Yaml out;
  out.push(
      on_exit(1),
      "1 to 3 is shanty's word that the job itself has failed: ranks were restarted in place as "
      "often as restart.max allows, a new pod would not help.");
  out.push(on_exit(2));
  out.push(on_exit(3));
  Yaml dead;
  dead.set("events", Yaml::texts({"PodFailed", "PodEvicted"}));
  dead.set("action", "RestartPod");
  out.push(dead,
           "Only the pod that died is replaced; it joins the others, which wait. RestartJob would "
           "kill them all.");
  return out;
}

Yaml task(const RenderContext& c, Yaml templ) {
  Yaml out;
  out.set("name", "node").set("replicas", c.nodes);
  out.set("policies", policies());
  out.set("template", std::move(templ));
  return out;
}

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  const PodFrame frame{.master_addr = c.name + "-node-0." + c.name,
                       .identity = {},  // VC_TASK_INDEX of the plugin env
                       .restart_policy = "Never",
                       .why_restart =
                           "Ranks are restarted inside the pod; what becomes of a dead "
                           "pod is in the policies.",
                       .hostname = {},
                       .subdomain = {},
                       .operator_makes_gang = true};
  const bool is_gang = c.gang.is(GangMechanism::kVolcano);
  Yaml job = make_object(c, "batch.volcano.sh/v1alpha1", "Job", c.name);
  Yaml& spec = job["spec"];
  spec.set("schedulerName", "volcano");
  spec.set("queue", c.job.schedule.queue.empty() ? "default" : c.job.schedule.queue);
  if (!c.job.schedule.priority.empty()) spec.set("priorityClassName", c.job.schedule.priority);
  spec.set("minAvailable", is_gang ? c.nodes : 1,
           is_gang ? "All or none: fewer would hold their GPUs and wait for the rest." : "");
  spec.set("maxRetry", c.job.restart.max);
  spec.set("ttlSecondsAfterFinished", static_cast<uint64_t>(std::ceil(c.job.schedule.ttl_s)),
           "Removes the finished job, which would otherwise stay for ever.");
  Yaml& plugins = spec["plugins"];
  plugins.set("env", Yaml::sequence(), "Gives each pod its number: VC_TASK_INDEX is its rank.");
  plugins.set(
      "svc", Yaml::texts({"--publish-not-ready-addresses=true", "--disable-network-policy=true"}),
      "A headless Service, so that pods have names, also before they are ready; without the "
      "NetworkPolicy that would keep metrics from being read.");
  spec["tasks"].push(task(c, pod_template(c, frame)));
  out.push_back({.stem = "job", .object = job, .text = {}, .file_name = {}});
  return out;
}

}  // namespace

extern const RenderTarget kVolcanoTarget = {.name = "volcano",
                                            .group = "batch.volcano.sh",
                                            .kind = "Job",
                                            .plural = "jobs",
                                            .gangs = gangs,
                                            .render = render};

}  // namespace shanty
