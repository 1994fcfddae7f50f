#include "check/trainer.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "check/objects.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::check {
namespace {

using kube::child;
using kube::items;
using nlohmann::json;

constexpr std::string_view kNode = "node";  // the trainer's job and its container
constexpr const char* kStep = "trainer.kubeflow.org/trainjob-ancestor-step";
constexpr const char* kQueue = "scheduling.volcano.sh/queue-name";

bool is_train_job(const json& object) {
  return json_string(object, "kind") == "TrainJob" &&
         json_string(object, "apiVersion").starts_with("trainer.kubeflow.org/");
}

RuntimeName runtime_of(const json& train_job) {
  const json& ref = child(child(train_job, "spec"), "runtimeRef");
  return {.kind = json_string(ref, "kind", "ClusterTrainingRuntime"),
          .name = json_string(ref, "name")};
}

const json* find_runtime(const RuntimeName& wanted, const std::vector<json>& objects) {
  const auto found = std::ranges::find_if(objects, [&](const json& object) {
    return json_string(object, "kind") == wanted.kind && name_of(object) == wanted.name;
  });
  return found == objects.end() ? nullptr : &*found;
}

// What the shipped runtimes have at least.
json plain_job() {
  const json pod = {{"spec", {{"containers", json::array({{{"name", kNode}}})}}}};
  return {{"name", kNode}, {"template", {{"spec", {{"template", pod}}}}}};
}

bool is_trainer(const json& job) {
  const auto labels = read_labels(child(job, "template"));
  const auto step = labels.find(kStep);
  return step == labels.end() ? json_string(job, "name") == kNode : step->second == "trainer";
}

// With MPI's launcher as a node there is one node less beside it.
int64_t nodes_of(const json& trainer, const json& policy) {
  const int64_t nodes = json_int64(trainer, "numNodes", json_int64(policy, "numNodes", 1));
  const bool launcher_too = json_bool(child(policy, "mpi"), "runLauncherAsNode");
  return launcher_too ? std::max<int64_t>(nodes - 1, 0) : nodes;
}

json& pod_spec_of(json& job) { return job["template"]["spec"]["template"]["spec"]; }

void take_trainer(const json& trainer, const json& policy, json& job) {
  if (json_string(job, "name") == kNode) {
    json& spec = job["template"]["spec"];
    spec["parallelism"] = spec["completions"] = nodes_of(trainer, policy);
  }
  json& pod_spec = pod_spec_of(job);
  if (!pod_spec.is_object() || !pod_spec["containers"].is_array()) return;
  for (json& container : pod_spec["containers"]) {
    if (json_string(container, "name") != kNode) continue;
    const std::string image = json_string(trainer, "image");
    if (!image.empty()) container["image"] = image;
    const json& resources = child(trainer, "resourcesPerNode");
    if (!resources.empty()) container["resources"] = resources;
  }
}

// Labels of nodes and tolerations are added, an affinity replaces.
void take_patch(const json& patch, json& pod_spec) {
  if (!pod_spec.is_object()) return;
  for (const auto& [key, value] : child(patch, "nodeSelector").items()) {
    pod_spec["nodeSelector"][key] = value;
  }
  for (const json& each : items(patch, "tolerations")) pod_spec["tolerations"].push_back(each);
  if (!child(patch, "affinity").empty()) pod_spec["affinity"] = child(patch, "affinity");
}

void take_patches(const json& train_job_spec, json& job) {
  const std::string name = json_string(job, "name");
  json& pod_spec = pod_spec_of(job);
  for (const json& patch : items(train_job_spec, "runtimePatches")) {  // since 2.2
    const json& jobs = child(child(child(patch, "trainingRuntimeSpec"), "template"), "spec");
    for (const json& each : items(jobs, "replicatedJobs")) {
      if (json_string(each, "name") != name) continue;
      const json& inner = child(child(each, "template"), "spec");
      take_patch(child(child(inner, "template"), "spec"), pod_spec);
    }
  }
  const auto concerns_job = [&](const json& entry) {
    const json& targets = items(entry, "targetJobs");
    return std::ranges::any_of(
        targets, [&](const json& target) { return json_string(target, "name") == name; });
  };
  for (const json& entry : items(train_job_spec, "podTemplateOverrides")) {  // 2.1
    if (concerns_job(entry)) take_patch(child(entry, "spec"), pod_spec);
  }
  for (const json& entry : items(train_job_spec, "podSpecOverrides")) {  // 2.0
    if (concerns_job(entry)) take_patch(entry, pod_spec);
  }
}

std::string queue_of(const json& holder) {
  return json_string(child(child(holder, "metadata"), "annotations"), kQueue);
}

}  // namespace

std::vector<RuntimeName> missing_runtimes(const std::vector<json>& objects) {
  std::vector<RuntimeName> out;
  for (const json& object : objects) {
    if (!is_train_job(object)) continue;
    RuntimeName name = runtime_of(object);
    if (!name.name.empty() && find_runtime(name, objects) == nullptr)
      out.push_back(std::move(name));
  }
  return out;
}

TrainerPlan plan_of_trainer(const json& train_job, const std::vector<json>& objects) {
  const json* runtime = find_runtime(runtime_of(train_job), objects);
  const json none = json::object();
  const json& runtime_spec = child(runtime == nullptr ? none : *runtime, "spec");
  const json& templ = child(runtime_spec, "template");
  TrainerPlan plan;
  for (const json& job : items(child(templ, "spec"), "replicatedJobs")) plan.jobs.push_back(job);
  if (plan.jobs.empty()) plan.jobs.push_back(plain_job());
  const json& spec = child(train_job, "spec");
  for (json& job : plan.jobs) {
    if (!job.is_object() || !child(child(job, "template"), "spec").contains("template")) continue;
    if (is_trainer(job)) {
      take_trainer(child(spec, "trainer"), child(runtime_spec, "mlPolicy"), job);
    }
    take_patches(spec, job);
  }
  const json& groups = child(runtime_spec, "podGroupPolicy");
  plan.is_gang = !groups.empty();
  if (groups.contains("volcano")) {
    plan.volcano_queue = queue_of(train_job);
    if (plan.volcano_queue.empty()) plan.volcano_queue = queue_of(templ);
    if (plan.volcano_queue.empty()) plan.volcano_queue = "default";
  }
  return plan;
}

}  // namespace shanty::check
