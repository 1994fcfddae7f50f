// A PyTorchJob of the Training Operator 1.9.
#include <cmath>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  // The operator with a gang scheduler makes a PodGroup of this very name, or takes this one.
  for (Piece& piece : gang_objects(c, c.nodes)) out.push_back(std::move(piece));
  const PodFrame frame{
      .container = "pytorch",  // the operator refuses any other name
      .master_addr = c.name + "-worker-0",
      .identity = {{.name = "SHANTY_NODE_RANK",
                    .value = {},
                    .field = "metadata.labels['training.kubeflow.org/replica-index']",
                    .why =
                        "Without a Master the operator sets no RANK; this label is the node's."}},
      .restart_policy = {},
      .why_restart = {},
      .hostname = {},
      .subdomain = {},
      .port_name = c.host_network ? "pytorchjob-port" : ""};
  Yaml job = make_object(c, "kubeflow.org/v1", "PyTorchJob", c.name);
  add_queue(c, job["metadata"]);
  Yaml& spec = job["spec"];
  spec.set("nprocPerNode", std::to_string(c.processes),
           "With the default, auto, a node without whole GPUs would start a process per CPU.");
  Yaml& policy = spec["runPolicy"];
  policy.set("cleanPodPolicy", "Running",
             "The default, None, leaves the other pods running on their GPUs when the job failed.");
  policy.set("ttlSecondsAfterFinished", static_cast<uint64_t>(std::ceil(c.job.schedule.ttl_s)),
             "Removes the finished job, which would otherwise stay for ever.");
  Yaml& worker = spec["pytorchReplicaSpecs"]["Worker"];
  worker.set("replicas", c.nodes);
  worker.comment(
      "Workers only. With a Master the operator gives each worker an init container of its own, "
      "alpine:3.10 from Docker Hub, which closed networks cannot pull and restricted namespaces "
      "refuse, and counts the job as done when the Master alone is.");
  worker.set(
      "restartPolicy", "ExitCode",
      "Exit codes from 128 mean that something ended the pod (out of memory, eviction): it is "
      "replaced and joins the others, which wait. 1 to 127 is shanty's word that the job has "
      "failed.");
  worker.set("template", pod_template(c, frame));
  out.push_back({.stem = "pytorchjob", .object = job, .text = {}, .file_name = {}});
  return out;
}

}  // namespace

extern const RenderTarget kPytorchjobTarget = {.name = "pytorchjob",
                                               .group = "kubeflow.org",
                                               .kind = "PyTorchJob",
                                               .plural = "pytorchjobs",
                                               .gangs = every_gang,
                                               .render = render};

}  // namespace shanty
