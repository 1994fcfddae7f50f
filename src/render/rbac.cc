#include <tuple>

#include <fmt/format.h>

#include "render/objects.h"
#include "render/pod.h"
#include "render/target.h"

namespace shanty {
namespace {

struct Right {
  std::string group;
  std::vector<std::string> resources;
  std::vector<std::string> verbs;
  std::string why;
};

Yaml rule(const Right& right) {
  Yaml out;
  // "" is the core group, which has to be written.
  out.set("apiGroups", Yaml::texts({right.group}), right.why);
  out.set("resources", Yaml::texts(right.resources));
  out.set("verbs", Yaml::texts(right.verbs));
  return out;
}

const std::vector<std::string> kApply = {"create", "get", "patch", "delete"};
const std::vector<std::string> kFollow = {"list", "watch"};
const std::vector<std::string> kBoth = {"create", "get", "list", "watch", "patch", "delete"};

std::vector<Right> rights(const RenderContext& c, const RenderTarget& target) {
  std::vector<Right> out;
  if (target.kind == "Pod") {
    out.push_back(
        {"", {"pods"}, {"create", "list", "watch", "patch", "delete"}, "The job's pods."});
  } else {
    out.push_back({std::string(target.group),
                   {std::string(target.plural)},
                   kBoth,
                   fmt::format("The job itself: to start, find, follow, stop and remove it.")});
    out.push_back({"",
                   {"pods"},
                   {"list", "watch", "delete"},
                   "Its pods: to follow them, and to have one replaced."});
  }
  if (target.name == "volcano") {
    out.push_back({"bus.volcano.sh",
                   {"commands"},
                   {"create"},
                   "`shanty stop`: Volcano's Jobs have no field for it, they are told to abort."});
  }
  if (target.name == "trainjob") {
    out.push_back({std::string(target.group),
                   {"trainingruntimes"},
                   kApply,
                   "The runtime that is made for the job."});
  }
  out.push_back({"", {"pods/log"}, {"get"}, "`shanty logs`."});
  out.push_back({"", {"events"}, kFollow, "Why pods wait: scheduling, image pulls."});
  out.push_back({"", {"configmaps"}, kApply, "The job file and the script."});
  if (c.options.token_from.empty()) {
    out.push_back({"",
                   {"secrets"},
                   {"create", "patch", "delete"},
                   "The job's token is put there and never read back."});
  }
  if (claims_devices(c)) {
    out.push_back({"resource.k8s.io",
                   {"resourceclaimtemplates"},
                   kApply,
                   "By which each pod claims its GPUs."});
  }
  if (target.name == "pods" || target.name == "job") {
    out.push_back({"", {"services"}, kApply, "The names by which pods find each other."});
  }
  if (!c.job.checkpoint.claim.empty() && c.job.checkpoint.size_bytes) {
    out.push_back({"",
                   {"persistentvolumeclaims"},
                   {"create", "get", "patch"},
                   "The checkpoint claim; shanty never deletes it."});
  }
  // Of its own Jobs Volcano makes the group itself.
  if (c.gang.is(GangMechanism::kVolcano) && target.name != "volcano") {
    out.push_back({"scheduling.volcano.sh", {"podgroups"}, kApply, "The group of the pods."});
  } else if (c.gang.is(GangMechanism::kCoscheduling)) {
    out.push_back({"scheduling.x-k8s.io", {"podgroups"}, kApply, "The group of the pods."});
  } else if (c.gang.is(GangMechanism::kNative)) {
    out.push_back(
        {"scheduling.k8s.io", {"workloads", "podgroups"}, kApply, "The group of the pods."});
  } else if (c.gang.is(GangMechanism::kKueue)) {
    out.push_back(
        {"kueue.x-k8s.io", {"localqueues"}, {"list"}, "Whether the job's queue is there."});
    out.push_back({"kueue.x-k8s.io",
                   {"workloads"},
                   {"list", "watch", "patch"},
                   "Where in the queue the job is, and why; `shanty stop` keeps it out of there."});
  }
  return out;
}

Yaml named(const RenderContext& c, std::string_view api, std::string_view kind) {
  return make_object(c, api, kind, c.name + "-runner");
}

}  // namespace

Result<Rendered> render_rbac(const Job& job, const KubernetesOffer& offer,
                             const RenderOptions& options) {
  Rendered out;
  const Plan plan;
  const RenderContext c = TRY(make_context(job, plan, offer, options, out.notes));
  const RenderTarget* target = find_target(options.target);
  if (target->kind.empty()) {
    return Error{
        fmt::format("target {} is nothing of Kubernetes', it needs no rights there", target->name)};
  }
  Yaml account = named(c, "v1", "ServiceAccount");
  account.comment(
      "The least that `shanty run --on kubernetes` needs for this job, in its namespace. The pods "
      "of "
      "the job need no rights and get no token.");
  account.set("automountServiceAccountToken", false);
  Yaml role = named(c, "rbac.authorization.k8s.io/v1", "Role");
  for (const Right& right : rights(c, *target)) role["rules"].push(rule(right));
  Yaml binding = named(c, "rbac.authorization.k8s.io/v1", "RoleBinding");
  binding["roleRef"]
      .set("apiGroup", "rbac.authorization.k8s.io")
      .set("kind", "Role")
      .set("name", c.name + "-runner");
  Yaml subject;
  subject.set("kind", "ServiceAccount").set("name", c.name + "-runner");
  subject.set("namespace",
              job.schedule.k8s_namespace.empty() ? "default" : job.schedule.k8s_namespace);
  binding["subjects"].push(subject);
  for (const auto& [file, kind, object] :
       {std::tuple("10-serviceaccount.yaml", "ServiceAccount", account),
        {"20-role.yaml", "Role", role},
        {"30-rolebinding.yaml", "RoleBinding", binding}}) {
    out.objects.push_back(
        {.file_name = file, .kind = kind, .name = c.name + "-runner", .text = object.write()});
  }
  out.notes.clear();
  return out;
}

}  // namespace shanty
