// A JobSet of one replicated Job whose pods are the nodes.
#include <cmath>

#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  for (Piece& piece : gang_objects(c, c.nodes)) out.push_back(std::move(piece));
  const PodFrame frame{.master_addr = c.name + "-node-0-0." + c.name,
                       .identity = {},
                       .restart_policy = "Never",
                       .why_restart =
                           "JobSet's default, OnFailure, would run a job once more that "
                           "has failed for good. Ranks are restarted inside the pod.",
                       .hostname = {},
                       .subdomain = {}};
  Yaml set = make_object(c, "jobset.x-k8s.io/v1alpha2", "JobSet", c.name);
  add_queue(c, set["metadata"]);
  Yaml& spec = set["spec"];
  spec["network"].set("enableDNSHostnames", true);
  spec["network"].set("publishNotReadyAddresses", true,
                      "The pods look for each other before any of them is ready.");
  spec["failurePolicy"].set(
      "maxRestarts", 0,
      "JobSet's restart would kill all pods. Here ranks are restarted in place and only dead pods "
      "are replaced; when the Job fails, so has the training.");
  spec.set("ttlSecondsAfterFinished", static_cast<uint64_t>(std::ceil(c.job.schedule.ttl_s)),
           "Removes the finished job, which would otherwise stay for ever.");
  Yaml job;
  job.set("name", "node").set("replicas", 1);
  job["template"].set("spec", indexed_job_spec(c, pod_template(c, frame), false));
  spec["replicatedJobs"].push(job);
  out.push_back({.stem = "jobset", .object = set, .text = {}, .file_name = {}});
  return out;
}

}  // namespace

extern const RenderTarget kJobsetTarget = {.name = "jobset",
                                           .group = "jobset.x-k8s.io",
                                           .kind = "JobSet",
                                           .plural = "jobsets",
                                           .gangs = every_gang,
                                           .render = render};

}  // namespace shanty
