#include "follow/pod_state.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "follow/labels.h"
#include "kube/rfc3339.h"
#include "text/json_fields.h"

namespace shanty::follow {
namespace {

using nlohmann::json;

constexpr int kMaxNodeRank = 1 << 20;

const json& part(const json& object, const char* name) {
  static const json kNone = json::object();
  const json* found = json_object(object, name);
  return found == nullptr ? kNone : *found;
}

const json& list(const json& object, const char* name) {
  static const json kNone = json::array();
  const json* found = json_array(object, name);
  return found == nullptr ? kNone : *found;
}

std::optional<int> read_rank(const std::string& text) {
  int rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && rank >= 0 && rank <= kMaxNodeRank ? std::optional(rank) : std::nullopt;
}

// Where each kind of workload says which node of the job a pod is.
int node_rank_of(const json& metadata, const json& spec) {
  for (const char* key :
       {"batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index",
        "volcano.sh/task-index", "leaderworkerset.sigs.k8s.io/worker-index"}) {
    for (const char* where : {"labels", "annotations"}) {
      if (const auto rank = read_rank(json_string(part(metadata, where), key))) return *rank;
    }
  }
  for (const json& container : list(spec, "containers")) {
    for (const json& variable : list(container, "env")) {
      if (json_string(variable, "name") != "SHANTY_NODE_RANK") continue;
      if (const auto rank = read_rank(json_string(variable, "value"))) return *rank;
    }
  }
  return -1;
}

void read_status(const json& status, ContainerState& container) {
  container.restarts = json_int(status, "restartCount");
  const json& state = part(status, "state");
  if (state.contains("running")) {
    container.phase = ContainerState::Phase::kRunning;
  } else if (const json* ended = json_object(state, "terminated")) {
    container.phase = ContainerState::Phase::kEnded;
    container.reason = json_string(*ended, "reason");
    container.message = json_string(*ended, "message");
    container.exit_code = json_int(*ended, "exitCode");
  } else {
    container.reason = json_string(part(state, "waiting"), "reason");
    container.message = json_string(part(state, "waiting"), "message");
  }
}

void read_containers(const json& spec, const json& status, bool is_init, PodState& pod) {
  const json& statuses = list(status, is_init ? "initContainerStatuses" : "containerStatuses");
  for (const json& each : list(spec, is_init ? "initContainers" : "containers")) {
    ContainerState container{
        .name = json_string(each, "name"), .image = json_string(each, "image"), .is_init = is_init};
    for (const json& told : statuses) {
      if (json_string(told, "name") == container.name) read_status(told, container);
    }
    pod.containers.push_back(std::move(container));
  }
}

bool is_gpu(const std::string& resource) {
  return resource.find("/gpu") != std::string::npos || resource.find("/mig-") != std::string::npos;
}

void read_gpus(const json& spec, PodState& pod) {
  for (const json& container : list(spec, "containers")) {
    for (const auto& [name, amount] : part(part(container, "resources"), "limits").items()) {
      if (!is_gpu(name)) continue;
      pod.gpu_resource = name;
      const std::string text = amount.is_string() ? amount.get<std::string>() : amount.dump();
      pod.gpus += static_cast<uint64_t>(read_rank(text).value_or(0));
    }
  }
}

bool lies_below(const std::string& path, const std::string& directory) {
  return !directory.empty() && (path == directory || path.starts_with(directory + "/"));
}

// Is `path` of the container on a PersistentVolumeClaim?
bool is_on_claim(const std::string& path, const json& container, const json& spec) {
  std::string volume;
  size_t longest = 0;
  for (const json& mount : list(container, "volumeMounts")) {
    const std::string where = json_string(mount, "mountPath");
    if (!lies_below(path, where) || where.size() <= longest) continue;
    longest = where.size();
    volume = json_string(mount, "name");
  }
  for (const json& each : list(spec, "volumes")) {
    if (json_string(each, "name") == volume) return each.contains("persistentVolumeClaim");
  }
  return false;
}

void read_run_dir(const json& metadata, const json& spec, PodState& pod) {
  constexpr std::string_view kFlag = "--run-dir=";
  const std::string told = json_string(part(metadata, "annotations"), kRunDirAnnotation);
  for (const json& container : list(spec, "containers")) {
    if (!told.empty()) {
      pod.run_dir = told;
      pod.run_dir_stays = is_on_claim(told, container, spec);
      return;
    }
    for (const char* key : {"command", "args"}) {
      for (const json& word : list(container, key)) {
        if (!word.is_string() || !word.get_ref<const std::string&>().starts_with(kFlag)) continue;
        pod.run_dir = word.get<std::string>().substr(kFlag.size());
        pod.run_dir_stays = is_on_claim(pod.run_dir, container, spec);
        return;
      }
    }
  }
}

}  // namespace

const ContainerState* PodState::trainer() const {
  const auto found = std::ranges::find(containers, false, &ContainerState::is_init);
  return found == containers.end() ? nullptr : &*found;
}

ContainerState* PodState::trainer() {
  const auto found = std::ranges::find(containers, false, &ContainerState::is_init);
  return found == containers.end() ? nullptr : &*found;
}

std::optional<PodState> read_pod(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const json& metadata = part(object, "metadata");
  const json& spec = part(object, "spec");
  const json& status = part(object, "status");
  PodState pod;
  pod.name = json_string(metadata, "name");
  if (pod.name.empty()) return std::nullopt;
  pod.uid = json_string(metadata, "uid");
  pod.job = json_string(part(metadata, "labels"), kJobLabel);
  pod.is_leaving = metadata.contains("deletionTimestamp");
  pod.created_unix_s =
      kube::parse_rfc3339_s(json_string(metadata, "creationTimestamp")).value_or(0);
  pod.node = json_string(spec, "nodeName");
  pod.node_rank = node_rank_of(metadata, spec);
  pod.is_helper = json_string(part(metadata, "labels"), "ray.io/node-type") == "head";
  pod.is_gated = !list(spec, "schedulingGates").empty();
  pod.phase = json_string(status, "phase", "Pending");
  pod.reason = json_string(status, "reason");
  pod.message = json_string(status, "message");
  for (const json& condition : list(status, "conditions")) {
    if (json_string(condition, "type") == "PodScheduled" &&
        json_string(condition, "status") == "False") {
      pod.no_place_why = json_string(condition, "message");
    }
  }
  read_containers(spec, status, true, pod);
  read_containers(spec, status, false, pod);
  read_gpus(spec, pod);
  read_run_dir(metadata, spec, pod);
  return pod;
}

}  // namespace shanty::follow
