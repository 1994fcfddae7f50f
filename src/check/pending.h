#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "causes/finding.h"
#include "check/snapshot.h"
#include "kube/client.h"

namespace shanty::check {

// What was read about something that waits: the pods it has, the objects that decide on it, and
// what was said about all of them.
struct Waiting {
  std::vector<nlohmann::json> pods;      // of it, ended ones too
  std::vector<nlohmann::json> deciders;  // Kueue Workloads, PodGroups, the job itself
  std::vector<nlohmann::json> events;    // of any of these
  std::vector<nlohmann::json> runtimes;  // of TrainJobs among the deciders
};

// Finds NAME in the namespace: a pod, or a job, PodGroup or Workload of any kind with pods or
// deciders of that name. An error says what was looked for.
kube::ApiResult<Waiting> find_waiting(kube::Client& client, const std::string& k8s_namespace,
                                      const std::string& name);

// Why it waits, from its own conditions and events. Pure.
std::vector<Finding> waiting_findings(const Waiting& waiting);

// What the pods that have no node ask for together. Empty groups: none waits for a node.
Workload waiting_workload(const Waiting& waiting, const std::string& name,
                          const std::string& k8s_namespace);

}  // namespace shanty::check
