#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/kubernetes_offer.h"
#include "job/job.h"
#include "plan/plan.h"

namespace shanty {

// A file that travels in a ConfigMap: the script, or one of code.files.
struct CodeFile {
  std::string path;  // as the job file names it, relative
  std::string content;
};

enum class GangChoice { kAuto, kNone, kKueue, kVolcano, kCoscheduling, kNative };

struct RenderOptions {
  std::string target = "job";
  GangChoice gang = GangChoice::kAuto;
  std::string token;       // what the token's Secret holds
  std::string token_from;  // or the name of a Secret that is there, with a key "token"
  std::string run_id;      // tells the runs of a job apart; "" = derived from the token
  // shanty comes by an image volume (Kubernetes 1.35 and later) instead of an init container.
  bool image_volume = false;
  std::vector<CodeFile> code;  // see read_local_code
  std::string code_problem;    // why the script is not among them
};

struct RenderedObject {
  std::string file_name;  // "10-secret.yaml"; their order is the order to create them in
  std::string kind;       // "Secret"; "" for a script or Dockerfile
  std::string name;
  std::string text;
};

struct Rendered {
  std::vector<RenderedObject> objects;
  std::vector<std::string> notes;  // what the user should know, one sentence each
};

// The objects of a job for one target. Pure: the same input gives the same bytes. `job` must have
// passed parse_job, `plan` be its plan. Errors: a target that is unknown or cannot carry the job,
// a gang mechanism it cannot have, no image.
Result<Rendered> render_job(const Job& job, const Plan& plan, const KubernetesOffer& offer,
                            const RenderOptions& options);

// The least rights that `shanty run --on kubernetes` needs for that job, as a ServiceAccount with a
// Role and a RoleBinding. The job's pods need none and get none.
Result<Rendered> render_rbac(const Job& job, const KubernetesOffer& offer,
                             const RenderOptions& options);

// "pods", "job", ...: the names of all targets.
std::vector<std::string_view> render_target_names();

// The name that a job's objects share: the job's own as a DNS label that leaves room for what
// operators append.
std::string kubernetes_name(std::string_view job_name);

}  // namespace shanty
