// Bare pods: nothing replaces them but `shanty run --on kubernetes`.
#include <fmt/format.h>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

// Kueue takes bare pods as a group, by labels on each of them.
void add_pod_group(const RenderContext& c, Yaml& metadata) {
  if (!c.gang.is(GangMechanism::kKueue)) return;
  add_queue(c, metadata);
  metadata["labels"].set("kueue.x-k8s.io/pod-group-name", c.name);
  metadata["annotations"].set("kueue.x-k8s.io/pod-group-total-count", std::to_string(c.nodes),
                              "Kueue waits for that many pods before it admits any.");
}

Piece pod(const RenderContext& c, uint64_t index) {
  const std::string name = fmt::format("{}-{}", c.name, index);
  const PodFrame frame{
      .master_addr = c.name + "-0." + c.name,
      .identity = {{.name = "SHANTY_NODE_RANK",
                    .value = std::to_string(index),
                    .field = {},
                    .why = "Which node of the job this pod is: nothing else says so."}},
      .restart_policy = "Never",
      .why_restart =
          "Ranks are restarted inside the pod. A container that ended has ended for "
          "good: to start it again would run a finished job once more.",
      .hostname = name,
      .subdomain = c.nodes > 1 ? c.name : ""};
  Yaml templ = pod_template(c, frame);
  Yaml object = make_object(c, "v1", "Pod", name);
  for (const char* section : {"labels", "annotations"}) {
    if (const Yaml* found = templ["metadata"].find(section))
      object["metadata"].set(section, *found);
  }
  add_pod_group(c, object["metadata"]);
  object.set("spec", templ["spec"]);
  return {.stem = fmt::format("pod-{}", index), .object = object, .text = {}, .file_name = {}};
}

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  if (c.nodes > 1) out.push_back(headless_service(c));
  for (Piece& piece : gang_objects(c, c.nodes)) out.push_back(std::move(piece));
  for (uint64_t i = 0; i < c.nodes; ++i) out.push_back(pod(c, i));
  return out;
}

}  // namespace

extern const RenderTarget kPodsTarget = {.name = "pods",
                                         .group = "",
                                         .kind = "Pod",
                                         .plural = "pods",
                                         .gangs = every_gang,
                                         .render = render};

}  // namespace shanty
