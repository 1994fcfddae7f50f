#include "check/pending.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "check/manifest.h"
#include "check/objects.h"
#include "check/probe.h"
#include "check/read_snapshot.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::check {
namespace {

using kube::child;
using kube::items;
using nlohmann::json;

constexpr size_t kMaxEventLines = 5;
constexpr size_t kMaxPodLines = 5;

// Labels by which operators mark the pods of a job.
constexpr const char* kJobLabels[] = {"batch.kubernetes.io/job-name",
                                      "job-name",
                                      "training.kubeflow.org/job-name",
                                      "jobset.sigs.k8s.io/jobset-name",
                                      "volcano.sh/job-name",
                                      "ray.io/cluster",
                                      "ray.io/originated-from-cr-name",
                                      "leaderworkerset.sigs.k8s.io/name",
                                      "scheduling.x-k8s.io/pod-group",
                                      "shanty.dev/job"};
constexpr const char* kGroupAnnotations[] = {"scheduling.k8s.io/group-name",
                                             "scheduling.volcano.sh/group-name"};
// Kinds that decide, by group.
constexpr std::pair<const char*, const char*> kDeciders[] = {
    {"kueue.x-k8s.io", "Workload"},
    {"scheduling.volcano.sh", "PodGroup"},
    {"scheduling.x-k8s.io", "PodGroup"},
    {"scheduling.k8s.io", "PodGroup"},
    {"batch", "Job"},
    {"kubeflow.org", "PyTorchJob"},
    {"trainer.kubeflow.org", "TrainJob"},
    {"jobset.x-k8s.io", "JobSet"},
    {"batch.volcano.sh", "Job"},
    {"kubeflow.org", "MPIJob"},
    {"ray.io", "RayJob"},
    {"ray.io", "RayCluster"},
    {"leaderworkerset.x-k8s.io", "LeaderWorkerSet"},
    {"apps", "Deployment"},
    {"apps", "StatefulSet"}};

bool is_owned_by(const json& object, const std::string& name) {
  return std::ranges::any_of(items(child(object, "metadata"), "ownerReferences"),
                             [&](const json& owner) { return json_string(owner, "name") == name; });
}

bool is_owned_by(const json& object, const std::string& kind, const std::string& name) {
  return std::ranges::any_of(
      items(child(object, "metadata"), "ownerReferences"), [&](const json& owner) {
        return json_string(owner, "name") == name && json_string(owner, "kind") == kind;
      });
}

bool belongs(const json& object, const std::string& name) {
  if (name_of(object) == name || is_owned_by(object, name)) return true;
  const auto labels = read_labels(object);
  for (const char* key : kJobLabels) {
    if (const auto found = labels.find(key); found != labels.end() && found->second == name) {
      return true;
    }
  }
  const json& annotations = child(child(object, "metadata"), "annotations");
  return std::ranges::any_of(
      kGroupAnnotations, [&](const char* key) { return json_string(annotations, key) == name; });
}

bool is_pending(const json& pod) {
  return json_string(child(pod, "status"), "phase", "Pending") == "Pending";
}

bool has_node(const json& pod) { return !json_string(child(pod, "spec"), "nodeName").empty(); }

const json* find_condition(const json& object, std::string_view type) {
  for (const json& condition : items(child(object, "status"), "conditions")) {
    if (json_string(condition, "type") == type) return &condition;
  }
  return nullptr;
}

bool is_of_kind(const json& object, std::string_view kind) {
  return json_string(object, "kind") == kind;
}

// What the pods come from, each once: of a job and what its operator made for it only the job, but
// instead of a TrainJob its JobSet, which says all of its pods.
std::vector<json> makers_of_pods(const std::vector<json>& deciders) {
  std::vector<json> out;
  for (const json& each : deciders) {
    const auto stands_for = [&](const json& other) {
      if (is_of_kind(each, "TrainJob")) {
        return is_of_kind(other, "JobSet") && is_owned_by(other, name_of(each));
      }
      return !is_of_kind(other, "TrainJob") && !is_of_kind(other, "Workload") && &other != &each &&
             is_owned_by(each, json_string(other, "kind"), name_of(other));
    };
    if (std::ranges::none_of(deciders, stands_for)) out.push_back(each);
  }
  return out;
}

void add_evidence(Finding& finding, const std::string& text) {
  const bool known = std::ranges::any_of(finding.evidence,
                                         [&](const Evidence& each) { return each.text == text; });
  if (!known && finding.evidence.size() < kMaxEventLines)
    finding.evidence.push_back({.text = text});
}

Finding* find_code(std::vector<Finding>& findings, std::string_view code) {
  const auto found = std::ranges::find(findings, code, &Finding::code);
  return found == findings.end() ? nullptr : &*found;
}

// One finding for all pods that have the same trouble.
void add_pod(std::vector<Finding>& findings, const char* code, const json& pod,
             const std::string& message, const std::string& evidence) {
  Finding* finding = find_code(findings, code);
  if (finding == nullptr) {
    findings.push_back(make_finding(code, Severity::kError, message));
    finding = &findings.back();
  }
  if (finding->subject.pods.size() < kMaxPodLines) finding->subject.pods.push_back(name_of(pod));
  if (!evidence.empty()) add_evidence(*finding, evidence);
}

void judge_containers(const json& pod, std::vector<Finding>& findings) {
  const json& status = child(pod, "status");
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const json& container : items(status, list)) {
      const json& waiting = child(child(container, "state"), "waiting");
      const std::string reason = json_string(waiting, "reason");
      const std::string what = name_of(pod) + ": " + json_string(waiting, "message", reason);
      if (reason == "ErrImagePull" || reason == "ImagePullBackOff" ||
          reason == "InvalidImageName" || reason == "ErrImageNeverPull") {
        add_pod(findings, "IMG051", pod,
                "image " + json_string(container, "image") + " cannot be pulled", what);
      } else if (reason == "CreateContainerConfigError" || reason == "CreateContainerError") {
        add_pod(findings, "POD050", pod,
                "a container cannot be made: " + json_string(waiting, "message", reason), what);
      }
    }
  }
}

void judge_pod(const json& pod, std::vector<Finding>& findings) {
  std::string gates;
  for (const json& gate : items(child(pod, "spec"), "schedulingGates")) {
    gates += (gates.empty() ? "" : ", ") + json_string(gate, "name");
  }
  if (!gates.empty() && !has_node(pod)) {
    add_pod(findings, "SCHED061", pod, "pods are held back by scheduling gates: " + gates, "");
  }
  const json* scheduled = find_condition(pod, "PodScheduled");
  if (scheduled == nullptr && !has_node(pod)) {
    const std::string scheduler =
        json_string(child(pod, "spec"), "schedulerName", "default-scheduler");
    add_pod(findings, "SCHED060", pod,
            "no scheduler has looked at the pods yet: is one named " + scheduler + " running?", "");
    find_code(findings, "SCHED060")->severity = Severity::kWarning;
  }
  judge_containers(pod, findings);
}

void judge_decider(const json& object, std::vector<Finding>& findings) {
  const std::string kind = json_string(object, "kind");
  const std::string what = kind + " " + name_of(object);
  if (kind == "Workload") {
    const json* reserved = find_condition(object, "QuotaReserved");
    const json* admitted = find_condition(object, "Admitted");
    const bool in = admitted != nullptr && json_string(*admitted, "status") == "True";
    if (in) return;
    Finding finding = make_finding("GANG054", Severity::kWarning,
                                   "Kueue has not admitted it: " + what + " in queue " +
                                       json_string(child(object, "spec"), "queueName"));
    for (const json* condition : {reserved, find_condition(object, "Evicted")}) {
      if (condition != nullptr) add_evidence(finding, json_string(*condition, "message"));
    }
    findings.push_back(std::move(finding));
  } else if (kind == "PodGroup") {
    const std::string phase = json_string(child(object, "status"), "phase");
    const json* unschedulable = find_condition(object, "Unschedulable");
    const json* scheduled = find_condition(object, "PodGroupInitiallyScheduled");
    const bool waits = (unschedulable != nullptr &&
                        json_string(*unschedulable, "status") == "True" && phase != "Running") ||
                       phase == "Pending" || phase == "Inqueue" || phase == "PreScheduling" ||
                       phase == "Scheduling" ||
                       (scheduled != nullptr && json_string(*scheduled, "status") != "True");
    if (!waits) return;
    Finding finding = make_finding("GANG056", Severity::kWarning,
                                   what + " waits until all its pods can start together" +
                                       (phase.empty() ? "" : " (" + phase + ")"));
    for (const json* condition : {unschedulable, scheduled}) {
      if (condition != nullptr) add_evidence(finding, json_string(*condition, "message"));
    }
    findings.push_back(std::move(finding));
  } else if (json_bool(child(object, "spec"), "suspend") ||
             json_bool(child(child(object, "spec"), "runPolicy"), "suspend")) {
    findings.push_back(make_finding("SCHED061", Severity::kWarning,
                                    what + " is suspended: nothing of it starts until that ends"));
  }
}

void judge_events(const Waiting& waiting, std::vector<Finding>& findings) {
  for (const json& event : waiting.events) {
    const std::string reason = json_string(event, "reason");
    const std::string text =
        json_string(child(event, "involvedObject"), "name") + ": " + json_string(event, "message");
    if (reason == "FailedScheduling" || reason == "Unschedulable") {
      Finding* finding = find_code(findings, "SCHED062");
      if (finding == nullptr) {
        findings.push_back(make_finding("SCHED062", Severity::kWarning,
                                        "the scheduler finds no place for the pods"));
        finding = &findings.back();
      }
      add_evidence(*finding, text);
    } else if (reason == "FailedMount" || reason == "FailedAttachVolume") {
      Finding* finding = find_code(findings, "STO053");
      if (finding == nullptr) {
        findings.push_back(make_finding("STO053", Severity::kError, "a volume cannot be mounted"));
        finding = &findings.back();
      }
      add_evidence(*finding, text);
    } else if (reason == "FailedCreate") {
      Finding* finding = find_code(findings, "SCHED058");
      if (finding == nullptr) {
        findings.push_back(
            make_finding("SCHED058", Severity::kError, "the server refuses the pods of the job"));
        finding = &findings.back();
      }
      add_evidence(*finding, text);
    }
  }
}

}  // namespace

kube::ApiResult<Waiting> find_waiting(kube::Client& client, const std::string& k8s_namespace,
                                      const std::string& name) {
  Waiting waiting;
  std::set<std::string> names = {name};
  const auto pod_kind = TRY(client.kind("", "Pod"));
  // A TrainJob's pods belong to a JobSet of its name, a JobSet's to a Job: labels lead there.
  const auto take_pod = [&](const json& item) {
    if (!belongs(item, name)) return;
    waiting.pods.push_back(item);
    names.insert(name_of(item));
  };
  TRY(client.list(pod_kind, k8s_namespace, {},
                  {.each = take_pod, .restart = [&] { waiting.pods.clear(); }}));
  for (const auto& [group, kind] : kDeciders) {
    const auto served = client.kind(group, kind);
    if (!served.ok()) continue;
    std::vector<json> found;
    const auto listed = client.list(
        *served, k8s_namespace, {},
        {.each =
             [&](json item) {
               if (!belongs(item, name)) return;
               // Items of a list do not say what they are.
               item["kind"] = served->kind;
               item["apiVersion"] =
                   served->group.empty() ? served->version : served->group + "/" + served->version;
               found.push_back(std::move(item));
             },
         .restart = [&] { found.clear(); }});
    if (!listed.ok()) continue;  // without the right to see it, the rest still says something
    for (json& object : found) {
      names.insert(name_of(object));
      waiting.deciders.push_back(std::move(object));
    }
  }
  if (waiting.pods.empty() && waiting.deciders.empty()) {
    kube::ApiError error;
    error.status = 404;
    error.message = "namespace " + k8s_namespace +
                    " has no pod, job, PodGroup or Workload named \"" + name +
                    "\", and no pods that belong to one: is the namespace right (--namespace)?";
    return error;
  }
  if (waiting.pods.empty()) {
    std::vector<std::string> problems;  // without it, the TrainJob itself still says something
    waiting.runtimes =
        read_runtimes(client, makers_of_pods(waiting.deciders), k8s_namespace, problems);
  }
  const auto event_kind = client.kind("", "Event");
  if (!event_kind.ok()) return waiting;
  const auto take_event = [&](json item) {
    if (names.contains(json_string(child(item, "involvedObject"), "name"))) {
      waiting.events.push_back(std::move(item));
    }
  };
  const auto listed = client.list(*event_kind, k8s_namespace, {},
                                  {.each = take_event, .restart = [&] { waiting.events.clear(); }});
  static_cast<void>(listed);  // events are a help, not a need
  const auto time = [](const json& event) {
    return json_string(event, "lastTimestamp", json_string(event, "eventTime"));
  };
  std::ranges::stable_sort(waiting.events, std::greater{}, time);
  return waiting;
}

std::vector<Finding> waiting_findings(const Waiting& waiting) {
  std::vector<Finding> findings;
  for (const json& decider : waiting.deciders) judge_decider(decider, findings);
  for (const json& pod : waiting.pods) {
    if (is_pending(pod)) judge_pod(pod, findings);
  }
  judge_events(waiting, findings);
  return findings;
}

Workload waiting_workload(const Waiting& waiting, const std::string& name,
                          const std::string& k8s_namespace) {
  std::vector<json> objects;
  for (json pod : waiting.pods) {
    if (!is_pending(pod) || has_node(pod)) continue;
    pod["kind"] = "Pod";
    objects.push_back(std::move(pod));
  }
  // A job that has no pods yet is judged by what it will make.
  if (waiting.pods.empty()) {
    objects = makers_of_pods(waiting.deciders);
    objects.insert(objects.end(), waiting.runtimes.begin(), waiting.runtimes.end());
  }
  Workload workload{.k8s_namespace = k8s_namespace};
  if (auto read = workload_of(objects, k8s_namespace); read.ok()) workload = std::move(*read);
  workload.name = name;
  workload.kind = "waiting";
  for (const json& decider : waiting.deciders) {
    const std::string kind = json_string(decider, "kind");
    if (kind == "Workload") {
      workload.kueue_queue = json_string(child(decider, "spec"), "queueName");
    }
    if (kind == "Workload" || kind == "PodGroup") workload.gang = true;
  }
  return workload;
}

}  // namespace shanty::check
