#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "follow/follower.h"

namespace shanty::follow {

// Objects as an API server and a kubelet give them, shortened to what is read.

inline nlohmann::json pod_object(const std::string& name, int rank, const std::string& node = "",
                                 uint64_t gpus = 8) {
  nlohmann::json pod = nlohmann::json::parse(R"({
    "metadata": {"labels": {"shanty.dev/job": "train"},
                 "creationTimestamp": "2026-11-30T04:31:51Z"},
    "spec": {
      "initContainers": [{"name": "shanty", "image": "shanty:1"}],
      "containers": [{"name": "trainer", "image": "train:1",
                      "command": ["/opt/shanty/shanty", "agent",
                                  "--run-dir=/mnt/ckpt/.shanty/runs/train-1", "--", "job.yaml"],
                      "volumeMounts": [{"name": "root", "mountPath": "/mnt"},
                                       {"name": "ckpt", "mountPath": "/mnt/ckpt"}],
                      "resources": {"limits": {"nvidia.com/gpu": "0", "cpu": "8"}}}],
      "volumes": [{"name": "root", "emptyDir": {}},
                  {"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}]},
    "status": {"phase": "Pending"}})");
  pod["metadata"]["name"] = name;
  pod["metadata"]["uid"] = "uid-" + name;
  pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = std::to_string(rank);
  pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = std::to_string(gpus);
  if (!node.empty()) pod["spec"]["nodeName"] = node;
  return pod;
}

inline nlohmann::json ended(int exit_code, const std::string& reason = "Error") {
  return {{"terminated", {{"exitCode", exit_code}, {"reason", reason}}}};
}
inline nlohmann::json running() { return {{"running", nlohmann::json::object()}}; }
inline nlohmann::json waiting(const std::string& reason, const std::string& message = "") {
  return {{"waiting", {{"reason", reason}, {"message", message}}}};
}

inline nlohmann::json with_states(nlohmann::json pod, const std::string& phase,
                                  const nlohmann::json& init, const nlohmann::json& trainer,
                                  int restarts = 0) {
  pod["status"] = {{"phase", phase},
                   {"initContainerStatuses", {{{"name", "shanty"}, {"state", init}}}},
                   {"containerStatuses",
                    {{{"name", "trainer"}, {"state", trainer}, {"restartCount", restarts}}}}};
  return pod;
}

inline nlohmann::json running_pod(const std::string& name, int rank, const std::string& node,
                                  uint64_t gpus = 8) {
  return with_states(pod_object(name, rank, node, gpus), "Running", ended(0, "Completed"),
                     running());
}

}  // namespace shanty::follow
