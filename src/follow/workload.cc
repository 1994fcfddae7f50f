#include "follow/workload.h"

#include <algorithm>
#include <tuple>

#include <nlohmann/json.hpp>

#include "follow/labels.h"
#include "kube/rfc3339.h"
#include "text/json_fields.h"

namespace shanty::follow {
namespace {

using nlohmann::json;
using Outcome = WorkloadState::Outcome;

// Kinds whose children are of another of these kinds come before it.
constexpr WorkloadKind kKinds[] = {
    {"trainer.kubeflow.org", "TrainJob", "/spec/suspend"},
    {"jobset.x-k8s.io", "JobSet", "/spec/suspend"},
    {"kubeflow.org", "PyTorchJob", "/spec/runPolicy/suspend"},
    {"kubeflow.org", "MPIJob", "/spec/runPolicy/suspend"},
    {"batch.volcano.sh", "Job", ""},
    {"ray.io", "RayJob", "/spec/suspend"},
    {"batch", "Job", "/spec/suspend"},
};

const json& part(const json& object, const char* name) {
  static const json kNone = json::object();
  const json* found = json_object(object, name);
  return found == nullptr ? kNone : *found;
}

std::string group_of(const json& object) {
  const std::string api_version = json_string(object, "apiVersion");
  const size_t slash = api_version.find('/');
  return slash == std::string::npos ? "" : api_version.substr(0, slash);
}

Outcome outcome_of_condition(const std::string& type) {
  if (type == "Complete" || type == "Completed" || type == "Succeeded") return Outcome::kSucceeded;
  return type == "Failed" ? Outcome::kFailed : Outcome::kOpen;
}

// Batch Jobs, JobSets, the Training Operator and Trainer speak by conditions.
void read_conditions(const json& status, WorkloadState& state) {
  const json* conditions = json_array(status, "conditions");
  if (conditions == nullptr) return;
  for (const json& condition : *conditions) {
    const Outcome outcome = outcome_of_condition(json_string(condition, "type"));
    if (outcome == Outcome::kOpen || json_string(condition, "status") != "True") continue;
    state.outcome = outcome;
    state.reason = json_string(condition, "reason");
    state.message = json_string(condition, "message");
  }
}

Outcome outcome_of_phase(const std::string& phase) {
  if (phase == "Completed" || phase == "Complete" || phase == "SUCCEEDED") {
    return Outcome::kSucceeded;
  }
  const bool failed = phase == "Failed" || phase == "Aborted" || phase == "Terminated" ||
                      phase == "FAILED" || phase == "STOPPED";
  return failed ? Outcome::kFailed : Outcome::kOpen;
}

void read_phases(const json& status, WorkloadState& state) {
  if (state.group == "batch.volcano.sh") {
    state.outcome = outcome_of_phase(json_string(part(status, "state"), "phase"));
    state.reason = json_string(part(status, "state"), "reason");
    state.message = json_string(part(status, "state"), "message");
  } else if (state.group == "ray.io") {
    // A RayJob that cannot even start has a deployment status and no job status.
    state.outcome = outcome_of_phase(json_string(status, "jobStatus"));
    if (state.outcome == Outcome::kOpen) {
      state.outcome = outcome_of_phase(json_string(status, "jobDeploymentStatus"));
    }
    state.reason = json_string(status, "reason");
    state.message = json_string(status, "message");
  }
}

bool is_suspended(const json& object, const WorkloadKind& kind) {
  if (kind.suspend.empty()) return false;
  const json::json_pointer field{std::string(kind.suspend)};
  return object.contains(field) && object[field].is_boolean() && object[field].get<bool>();
}

}  // namespace

std::span<const WorkloadKind> workload_kinds() { return kKinds; }

const WorkloadKind* find_workload_kind(std::string_view group, std::string_view kind) {
  const auto found = std::ranges::find_if(
      kKinds, [&](const WorkloadKind& each) { return each.group == group && each.kind == kind; });
  return found == std::end(kKinds) ? nullptr : &*found;
}

std::optional<WorkloadState> read_workload(const json& object) {
  if (!object.is_object()) return std::nullopt;
  WorkloadState state;
  state.group = group_of(object);
  state.kind = json_string(object, "kind");
  const WorkloadKind* kind = find_workload_kind(state.group, state.kind);
  const json& metadata = part(object, "metadata");
  state.name = json_string(metadata, "name");
  if (kind == nullptr || state.name.empty()) return std::nullopt;
  state.uid = json_string(metadata, "uid");
  state.job = json_string(part(metadata, "labels"), kJobLabel);
  state.queue = json_string(part(metadata, "labels"), "kueue.x-k8s.io/queue-name");
  state.is_leaving = metadata.contains("deletionTimestamp");
  state.created_unix_s =
      kube::parse_rfc3339_s(json_string(metadata, "creationTimestamp")).value_or(0);
  state.is_suspended = is_suspended(object, *kind);
  const json& status = part(object, "status");
  read_conditions(status, state);
  read_phases(status, state);
  return state;
}

std::optional<QueueEntry> read_queue_entry(const json& workload) {
  if (!workload.is_object()) return std::nullopt;
  const json& metadata = part(workload, "metadata");
  const json& spec = part(workload, "spec");
  QueueEntry entry{
      .name = json_string(metadata, "name"),
      .queue = json_string(spec, "queueName"),
      .priority = json_int64(spec, "priority"),
      .created_unix_s =
          kube::parse_rfc3339_s(json_string(metadata, "creationTimestamp")).value_or(0)};
  if (entry.name.empty()) return std::nullopt;
  entry.is_kept_out = !json_bool(spec, "active", true);
  if (const json* owners = json_array(metadata, "ownerReferences")) {
    for (const json& owner : *owners) entry.owner_uid = json_string(owner, "uid");
  }
  const json* conditions = json_array(part(workload, "status"), "conditions");
  if (conditions == nullptr) return entry;
  for (const json& condition : *conditions) {
    const std::string type = json_string(condition, "type");
    const bool is_true = json_string(condition, "status") == "True";
    if (type == "Admitted") entry.is_admitted = is_true;
    if (type == "Finished") entry.is_over = is_true;
    if (type == "QuotaReserved" && !is_true) entry.why = json_string(condition, "message");
  }
  return entry;
}

std::optional<QueuePlace> find_place(const std::vector<QueueEntry>& entries,
                                     const std::string& owner_uid) {
  const auto own = std::ranges::find(entries, owner_uid, &QueueEntry::owner_uid);
  if (own == entries.end()) return std::nullopt;
  QueuePlace place{.is_admitted = own->is_admitted,
                   .is_kept_out = own->is_kept_out,
                   .queue = own->queue,
                   .why = own->why};
  if (place.is_admitted) return place;
  for (const QueueEntry& each : entries) {
    if (each.queue != own->queue || each.is_admitted || each.is_over || each.is_kept_out) {
      continue;
    }
    ++place.waiting;
    const auto rank = [](const QueueEntry& e) {
      return std::tuple(-e.priority, e.created_unix_s, e.name);
    };
    if (rank(each) <= rank(*own)) ++place.position;
  }
  return place;
}

}  // namespace shanty::follow
