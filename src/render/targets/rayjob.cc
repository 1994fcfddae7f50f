// A RayJob of KubeRay: a Ray cluster with a worker pod per node, on which a small driver starts the
// agents.
#include <cmath>

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
  for (const std::string& word : agent_command(c, "")) out += " " + shell_word(word);
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
  out["rayStartParams"].set("resources", R"("{\"shanty_node\": 1}")",
                            "What the driver asks for, so that each pod gets one node of the job. "
                            "The quotes inside are for the shell that starts Ray.");
  out.set("template", pod_template(c, frame_of("ray-worker", false)));
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
  spec.set("ttlSecondsAfterFinished", static_cast<uint64_t>(std::ceil(c.job.schedule.ttl_s)));
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
                                           .gangs = every_gang,
                                           .render = render};

}  // namespace shanty
