// A RayJob of KubeRay: a Ray cluster with a worker pod per node, on which a small driver starts the
// agents.
#include <fmt/format.h>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/ray_script.h"
#include "render/shell.h"
#include "render/target.h"

namespace shanty {
namespace {

constexpr const char* kScriptName = "ray_nodes.py";

// Before KubeRay 1.7 the pods of its CRDs do not have schedulingGroup.
std::vector<GangMechanism> gangs(const KubernetesOffer&) {
  return {GangMechanism::kKueue, GangMechanism::kVolcano, GangMechanism::kCoscheduling};
}

PodFrame frame_of(const char* container, bool is_head) {
  return {.container = container,
          .master_addr = {},
          .identity = {},
          .restart_policy = {},
          .why_restart = {},
          .hostname = {},
          .subdomain = {},
          .is_idle = is_head,
          .config_file = is_head ? kScriptName : "",
          .image_runs_itself = true};
}

std::string entrypoint(const RenderContext& c) {
  std::string out =
      fmt::format("python3 {}/{} {} {} --", kConfigDir, kScriptName, c.nodes, c.job.restart.max);
  std::vector<std::string> command = agent_command(c, "");
  // Nobody knows before which pod is node 0: all are read, and must not say the same.
  if (c.nodes > 1 && run_dir_is_shared(c)) command.insert(command.begin() + 2, "--one-log");
  // Nor where they meet when they are started anew: the run is known by its name.
  if (c.nodes > 1) command.insert(command.begin() + 2, "--rdzv-id=" + c.run_id);
  for (const std::string& word : command) out += " " + shell_word(word);
  return out;
}

Yaml head(const RenderContext& c) {
  Yaml out;
  Yaml& params = out["rayStartParams"];
  params.set("num-cpus", "0", "Nothing but the driver runs on the head.");
  params.set("num-gpus", "0");
  out.set("template", pod_template(c, frame_of("ray-head", true)));
  return out;
}

Yaml workers(const RenderContext& c) {
  Yaml out;
  out.set("groupName", "node");
  out.set("replicas", c.nodes).set("minReplicas", c.nodes).set("maxReplicas", c.nodes);
  out["rayStartParams"].set(
      "resources", R"('{"shanty_node": 1}')",
      "What the driver asks for, so that each pod gets one node of the job. "
      "The quotes around are for the shell that starts Ray; KubeRay reads the rest as JSON.");
  Yaml templ = pod_template(c, frame_of("ray-worker", false));
  templ["metadata"]["annotations"].set("shanty.dev/run-dir", run_dir(c),
                                       "For shanty's verbs: the agent's command is not here.");
  out.set("template", std::move(templ));
  return out;
}

void add_script(std::vector<Piece>& pieces) {
  for (Piece& piece : pieces) {
    if (piece.stem == "config") piece.object["data"].set(kScriptName, kRayScript);
  }
}

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  add_script(out);
  for (Piece& piece : gang_objects(c, c.nodes + 1)) out.push_back(std::move(piece));
  Yaml job = make_object(c, "ray.io/v1", "RayJob", c.name);
  add_queue(c, job["metadata"]);
  Yaml& spec = job["spec"];
  spec.set("entrypoint", entrypoint(c));
  spec.set("submissionMode", "HTTPMode",
           "The operator hands the driver to the head itself. The default makes a pod for that, "
           "without a security context, which restricted namespaces refuse.");
  spec.set("shutdownAfterJobFinishes", true,
           "The default keeps the cluster, and its GPUs, after the job's end.");
  spec.set("ttlSecondsAfterFinished", 0,
           "How long the cluster, not the RayJob, stays then: schedule.ttl is not for GPUs that "
           "nobody uses.");
  spec.set("backoffLimit", 0,
           "Another try would be a whole new cluster; the driver replaces nodes itself.");
  Yaml& cluster = spec["rayClusterSpec"];
  cluster["headGroupSpec"] = head(c);
  cluster["workerGroupSpecs"].push(workers(c));
  cluster.comment("run.image must hold Ray, the same version on all pods.");
  out.push_back({.stem = "rayjob", .object = job, .text = {}, .file_name = {}});
  return out;
}

}  // namespace

extern const RenderTarget kRayjobTarget = {.name = "rayjob",
                                           .group = "ray.io",
                                           .kind = "RayJob",
                                           .plural = "rayjobs",
                                           .gangs = gangs,
                                           .render = render};

}  // namespace shanty
