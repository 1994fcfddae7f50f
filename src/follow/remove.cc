#include "follow/remove.h"

#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "follow/labels.h"
#include "text/json_fields.h"

namespace shanty::follow {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::ApiStatus;
using kube::Client;
using kube::ObjectRef;
using nlohmann::json;

constexpr Duration kLookEvery = std::chrono::milliseconds(300);

// What a job has beside the object its pods come from: kind and what follows its name.
struct Companion {
  const char* group;
  const char* kind;
  const char* suffix;
};
constexpr Companion kCompanions[] = {
    {"trainer.kubeflow.org", "TrainingRuntime", ""},
    {"scheduling.volcano.sh", "PodGroup", ""},
    {"scheduling.x-k8s.io", "PodGroup", ""},
    {"scheduling.k8s.io", "PodGroup", ""},
    {"scheduling.k8s.io", "Workload", ""},
    {"resource.k8s.io", "ResourceClaimTemplate", ""},
    {"", "Service", ""},
    {"", "Secret", "-token"},
    {"", "ConfigMap", "-job"},
};

bool is_of_job(const json& object, const std::string& job) {
  const json* metadata = json_object(object, "metadata");
  const json* labels = metadata == nullptr ? nullptr : json_object(*metadata, "labels");
  return labels != nullptr && json_string(*labels, kJobLabel) == job;
}

ApiError error_of(std::string message) {
  ApiError error;
  error.message = std::move(message);
  return error;
}

// Is it there? Forbidden counts as no: what cannot be seen goes with its owner.
ApiResult<bool> is_there(Client& client, const ObjectRef& ref, const std::string& job) {
  const auto object = client.get(ref);
  if (object.ok()) return is_of_job(*object, job);
  if (object.error().is_not_found() || object.error().status == 403) return false;
  return object.error();
}

ApiResult<size_t> count_pods(Client& client, const std::string& job) {
  const ServedKind kind = TRY(client.kind("", "Pod"));
  size_t count = 0;
  TRY(client.list(kind, client.access().k8s_namespace, {.label_selector = selector_of_job(job)},
                  {.each =
                       [&](const json& item) {
                         const auto pod = read_pod(item);
                         // A pod that has ended and is kept for its log holds nothing.
                         if (pod && !(pod->has_ended() && !pod->is_leaving)) ++count;
                       },
                   .restart = [&] { count = 0; }}));
  return count;
}

ApiStatus wait_until(Client& client, const std::string& what, Duration limit,
                     const std::function<ApiResult<bool>()>& is_so) {
  const TimePoint deadline = system_clock().now() + limit;
  while (!TRY(is_so())) {
    if (system_clock().now() >= deadline) {
      return error_of(
          fmt::format("{} did not happen within {:.0f} s: kubectl describe shows what "
                      "holds it, a finalizer or a node that does not answer",
                      what, to_seconds(limit)));
    }
    if (!client.wait(kLookEvery)) return error_of("interrupted while waiting: " + what);
  }
  return {};
}

ApiStatus wait_for_no_pods(Client& client, const std::string& job, Duration limit) {
  return wait_until(client, "the end of all pods of " + job, limit,
                    [&]() -> ApiResult<bool> { return TRY(count_pods(client, job)) == 0; });
}

ApiStatus remove_pods(Client& client, const FoundJob& job, bool ended_too) {
  for (const PodState& pod : job.pods) {
    if (pod.has_ended() && !ended_too) continue;
    TRY_STATUS(client.remove(TRY(reference(client, "", "Pod", pod.name))));
  }
  return {};
}

ApiStatus remove_workload(Client& client, const FoundJob& job, const Say& say, Duration limit) {
  if (!job.workload) return {};
  const WorkloadState& workload = *job.workload;
  const ObjectRef ref = TRY(reference(client, workload.group, workload.kind, workload.name));
  // In the foreground a TrainJob waits for what its own operator would have to let go.
  TRY_STATUS(client.remove(ref, kube::Propagation::kBackground));
  TRY_STATUS(wait_until(client, "the removal of " + describe(ref), limit, [&] {
    const auto there = is_there(client, ref, job.name);
    return there.ok() ? ApiResult<bool>(!*there) : there;
  }));
  say(workload.kind + " " + workload.name + " is removed");
  return {};
}

ApiStatus remove_companions(Client& client, const FoundJob& job, Duration limit) {
  std::vector<ObjectRef> going;
  for (const Companion& each : kCompanions) {
    const auto ref = reference(client, each.group, each.kind, job.name + each.suffix);
    if (!ref.ok()) continue;  // the cluster has no such kind
    if (!TRY(is_there(client, *ref, job.name))) continue;
    TRY_STATUS(client.remove(*ref));
    going.push_back(*ref);
  }
  for (const ObjectRef& ref : going) {
    TRY_STATUS(wait_until(client, "the removal of " + describe(ref), limit, [&] {
      const auto there = is_there(client, ref, job.name);
      return there.ok() ? ApiResult<bool>(!*there) : there;
    }));
  }
  return {};
}

json field_patch(std::string_view pointer, const json& value) {
  json patch = json::object();
  patch[json::json_pointer(std::string(pointer))] = value;
  return patch;
}

// Kueue owns the field suspend of what it queues; it has a field of its own to keep a job out.
ApiStatus deactivate(Client& client, const WorkloadState& workload) {
  const ServedKind kind = TRY(client.kind("kueue.x-k8s.io", "Workload"));
  std::string name;
  TRY(client.list(kind, client.access().k8s_namespace, {},
                  {.each =
                       [&](const json& item) {
                         const auto entry = read_queue_entry(item);
                         if (entry && entry->owner_uid == workload.uid) name = entry->name;
                       },
                   .restart = {}}));
  if (name.empty()) return error_of("Kueue has no Workload for " + workload.name + " yet");
  const ObjectRef ref = TRY(reference(client, "kueue.x-k8s.io", "Workload", name));
  const auto done = client.merge_patch(ref, field_patch("/spec/active", false));
  return done.ok() ? ApiStatus() : ApiStatus(done.error());
}

ApiStatus abort_volcano_job(Client& client, const WorkloadState& workload) {
  const json command = {
      {"apiVersion", "bus.volcano.sh/v1alpha1"},
      {"kind", "Command"},
      {"metadata",
       {{"generateName", workload.name + "-abort-"}, {"namespace", client.access().k8s_namespace}}},
      {"action", "AbortJob"},
      {"target",
       {{"apiVersion", "batch.volcano.sh/v1alpha1"},
        {"kind", "Job"},
        {"name", workload.name},
        {"uid", workload.uid},
        {"controller", true}}}};
  const auto made = client.create_object(command);
  return made.ok() ? ApiStatus() : ApiStatus(made.error());
}

ApiStatus mark_stopped(Client& client, const std::string& job) {
  const ObjectRef ref = TRY(reference(client, "", "ConfigMap", config_name(job)));
  const json patch = {{"metadata", {{"annotations", {{kStoppedAnnotation, "true"}}}}}};
  const auto done = client.merge_patch(ref, patch);
  return done.ok() || done.error().is_not_found() ? ApiStatus() : ApiStatus(done.error());
}

}  // namespace

ApiStatus remove_job(Client& client, const FoundJob& job, const Say& say, Duration limit) {
  if (!job.workload) {
    // Whoever replaces dead pods sees by this that the job is over.
    TRY_STATUS(mark_stopped(client, job.name));
  }
  TRY_STATUS(remove_workload(client, job, say, limit));
  // Operators leave pods behind that have ended, and bare pods have nobody else.
  TRY_STATUS(remove_pods(client, job, true));
  TRY_STATUS(wait_until(client, "the removal of all pods of " + job.name, limit, [&] {
    const auto left = find_jobs(client, job.name);
    return left.ok() ? ApiResult<bool>(left->empty()) : ApiResult<bool>(left.error());
  }));
  if (!job.pods.empty()) {
    say(fmt::format("{} pod{} of it {} removed", job.pods.size(), job.pods.size() == 1 ? "" : "s",
                    job.pods.size() == 1 ? "is" : "are"));
  }
  return remove_companions(client, job, limit);
}

ApiResult<FoundJob> find_job_or_rest(Client& client, const std::string& name) {
  auto job = find_job(client, name);
  if (job.ok() || !job.error().is_not_found()) return job;
  const ObjectRef config = TRY(reference(client, "", "ConfigMap", config_name(name)));
  if (!TRY(is_there(client, config, name))) return job;
  return FoundJob{.name = name, .k8s_namespace = client.access().k8s_namespace};
}

ApiStatus stop_job(Client& client, const FoundJob& job, const Say& say, Duration limit) {
  if (!job.workload) {
    TRY_STATUS(mark_stopped(client, job.name));
    TRY_STATUS(remove_pods(client, job, false));
    return wait_for_no_pods(client, job.name, limit);
  }
  const WorkloadState& workload = *job.workload;
  if (workload.outcome != WorkloadState::Outcome::kOpen) {
    return error_of("job " + job.name + " has ended already: it " + job.state());
  }
  const WorkloadKind* kind = find_workload_kind(workload.group, workload.kind);
  if (!workload.queue.empty()) {
    TRY_STATUS(deactivate(client, workload));
  } else if (kind->suspend.empty()) {
    TRY_STATUS(abort_volcano_job(client, workload));
  } else {
    const ObjectRef ref = TRY(reference(client, workload.group, workload.kind, workload.name));
    TRY(client.merge_patch(ref, field_patch(kind->suspend, true)));
  }
  say(workload.kind + " " + workload.name +
      " is told to stop: its ranks get SIGTERM and time to "
      "save");
  return wait_for_no_pods(client, job.name, limit);
}

}  // namespace shanty::follow
