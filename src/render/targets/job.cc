// An indexed Job of Kubernetes itself: nothing has to be installed for it.
#include "render/gang.h"
#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

Result<std::vector<Piece>> render(const RenderContext& c) {
  std::vector<Piece> out = common_objects(c);
  const PodFrame frame{.master_addr = c.name + "-0." + c.name,
                       .identity = {},
                       .restart_policy = "Never",
                       .why_restart =
                           "Ranks are restarted inside the pod; a pod that is dead is "
                           "replaced by a new one, see podFailurePolicy.",
                       .hostname = {},
                       .subdomain = c.nodes > 1 ? c.name : ""};
  if (c.nodes > 1) out.push_back(headless_service(c));
  for (Piece& piece : gang_objects(c, c.nodes)) out.push_back(std::move(piece));
  Yaml job = make_object(c, "batch/v1", "Job", c.name);
  add_queue(c, job["metadata"]);
  job.set("spec", indexed_job_spec(c, pod_template(c, frame), true));
  out.push_back({.stem = "job", .object = job, .text = {}, .file_name = {}});
  return out;
}

}  // namespace

extern const RenderTarget kJobTarget = {.name = "job",
                                        .group = "batch",
                                        .kind = "Job",
                                        .plural = "jobs",
                                        .gangs = every_gang,
                                        .render = render};

}  // namespace shanty
