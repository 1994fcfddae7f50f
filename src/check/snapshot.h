#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "check/fit.h"
#include "cluster/kubernetes_offer.h"

namespace shanty::check {

// What was read of a cluster, as plain data: everything that probes look at. A part that could not
// be read (no right, not served) is named in `unread` and stays empty.

struct NodeFacts {
  FitNode fit;
  Amounts capacity;
  std::string not_ready_reason;
};

struct ClaimFacts {
  std::string name;
  std::string phase;  // Pending, Bound, Lost
  std::vector<std::string> access_modes;
  std::string storage_class;
  bool terminating = false;
  bool is_new = false;  // the job's own objects make it
  std::string volume;   // that it is bound to
  NeedSets nodes = {};  // from which that is reached; empty: from all
};

// "Terminating", "PriorityClass" with "In" and values, ...
struct QuotaScope {
  std::string name;
  std::string op = "Exists";  // Exists, DoesNotExist, In, NotIn
  std::vector<std::string> values;
};

struct QuotaFacts {
  std::string name;
  Amounts hard;  // "requests.nvidia.com/gpu", "requests.cpu" in thousandths, "pods", ...
  Amounts used;
  std::vector<QuotaScope> scopes;  // it counts only pods that are in all of them
};

// A LimitRange's bounds for Container or Pod.
struct LimitFacts {
  std::string name;
  std::string type;
  Amounts most;
  Amounts least;
};

struct LocalQueueFacts {
  std::string name;
  std::string cluster_queue;
  bool active = true;
  std::string inactive_why;
};

struct FlavorQuota {
  std::string flavor;
  std::string resource;
  int64_t nominal = 0;
  std::optional<int64_t> borrow;  // none: no limit within the cohort
  int64_t used = 0;
  std::optional<int64_t> lend;  // of what it has, to the cohort above; none: all
};

struct ClusterQueueFacts {
  std::string name;
  std::string cohort;
  bool stopped = false;
  bool active = true;
  std::string inactive_why;
  bool admits_namespace = true;  // by its namespaceSelector
  std::vector<FlavorQuota> quotas;
};

// A Cohort of Kueue: quotas of its own, and a place in a tree.
struct CohortFacts {
  std::string name;
  std::string parent;  // empty: it is a root
  std::vector<FlavorQuota> quotas;
};

struct FlavorFacts {
  std::string name;
  std::map<std::string, std::string> node_labels;
  std::string topology;  // the Topology by whose levels it places pods; empty: by none
};

struct PriorityFacts {
  std::string name;
  int64_t value = 0;
  bool is_default = false;  // of pods that name none
  bool preempts = true;
};

struct VolcanoQueueFacts {
  std::string name;
  std::string state;  // Open, Closed, ...
  Amounts capability;
  Amounts allocated;
};

struct Refusal {
  std::string object = {};       // "Job llm"
  std::string message;           // the server's words
  bool is_pod_security = false;  // the namespace's level, about the pods of the object
  bool is_limit_range = false;   // bounds of the namespace, about the pods of the object
};

struct Snapshot {
  std::string context;
  std::string k8s_namespace;
  int64_t now_unix_s = 0;
  std::vector<ServedKind> kinds;
  std::vector<NodeFacts> nodes;
  std::vector<FitPod> pods;  // of all namespaces, those that have not ended
  bool sees_all_pods = true;
  bool namespace_exists = true;
  std::map<std::string, std::string> namespace_labels;
  std::vector<PriorityFacts> priority_classes;
  std::string pod_security;             // the level that the namespace enforces; "" = none is said
  std::vector<std::string> schedulers;  // names that placed pods
  std::map<std::string, ClaimFacts> claims;
  std::map<std::string, bool> late_binding;         // storage classes: WaitForFirstConsumer
  std::optional<std::vector<std::string>> secrets;  // names; nothing: not allowed to see
  std::vector<QuotaFacts> quotas;
  std::vector<LimitFacts> limits;
  std::vector<LocalQueueFacts> local_queues;
  std::vector<ClusterQueueFacts> cluster_queues;
  std::vector<CohortFacts> cohorts;  // those that are objects; others are only names
  std::vector<FlavorFacts> flavors;
  std::vector<VolcanoQueueFacts> volcano_queues;
  std::vector<Refusal> refusals;
  bool pods_tried = false;          // the server was asked about the pods themselves
  std::vector<std::string> unread;  // "nodes: cannot list nodes: ..."

  // Resources that a DeviceClass of resource.k8s.io gives out by claims which the scheduler makes.
  std::vector<std::string> device_resources;

  bool serves(const std::string& group, const std::string& kind) const;
  // Pods get it by such claims: no node has it among its allocatable ones.
  bool gives_by_claims(const std::string& resource) const;
};

// A claim that the pods mount.
struct ClaimUse {
  std::string name;
  bool read_only = false;
  bool many_nodes = false;
};

// What is asked of the cluster, from a job file or from manifests.
struct Workload {
  std::string name;
  std::string kind = "job";
  std::string k8s_namespace;
  FitRequest request;
  bool gang = false;        // it is asked to start together
  std::string kueue_queue;  // LocalQueue; empty: none named
  std::string volcano_queue;
  std::string scheduler;  // schedulerName; empty: the default one
  std::string priority_class;
  std::string gpu_model;        // as the user wrote it
  bool claims_devices = false;  // by claims of resource.k8s.io
  std::vector<ClaimUse> claims;
  std::vector<std::string> pull_secrets;
  std::vector<std::string> images;
  bool has_deadline = false;   // the pods have an activeDeadlineSeconds
  bool asks_topology = false;  // of Kueue, by an annotation of the pods

  uint64_t pods() const;
  // Of all pods together.
  Amounts total() const;
  Amounts total_limits() const;
};

}  // namespace shanty::check
