#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shanty {

// What a Kubernetes cluster offers to a job, as plain data. Discovery fills it; `render` chooses
// by it. An empty list or string means "not there", an empty optional "not known".

// "1.37", "2.3": the part of a version on which shapes of objects depend.
struct MinorVersion {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const MinorVersion&, const MinorVersion&) = default;
};

// A kind the API server serves in one version; a kind served in three versions is three of these.
struct ServedKind {
  std::string group;    // "" for the core group
  std::string version;  // "v1", "v1beta2"
  std::string kind;     // "Job"
  std::string plural;   // "jobs"
  bool namespaced = true;
  friend bool operator==(const ServedKind&, const ServedKind&) = default;
};

// Who sees to it that all pods of a job start together or not at all.
enum class GangMechanism {
  kKueue,         // admits whole jobs by quota; label kueue.x-k8s.io/queue-name
  kVolcano,       // PodGroup scheduling.volcano.sh, a scheduler of its own
  kCoscheduling,  // PodGroup scheduling.x-k8s.io, a scheduler with that plugin
  kNative,        // Workload and PodGroup of scheduling.k8s.io, the default scheduler
};

// A resource that nodes advertise beside cpu, memory, storage and pods: nvidia.com/gpu,
// nvidia.com/mig-1g.10gb, rdma/hca, vpc.amazonaws.com/efa, hugepages-2Mi.
struct ExtendedResource {
  std::string name;
  uint64_t nodes = 0;          // that have it allocatable
  uint64_t most_per_node = 0;  // the largest allocatable amount of one node
  uint64_t total = 0;
  friend bool operator==(const ExtendedResource&, const ExtendedResource&) = default;
};

// Nodes that carry the same nvidia.com/gpu.product.
struct GpuModelOffer {
  std::string product;  // "NVIDIA-H100-80GB-HBM3"
  uint64_t nodes = 0;
  uint64_t gpus_per_node = 0;  // the largest
  uint64_t memory_mib = 0;     // of one GPU; 0: not told
  friend bool operator==(const GpuModelOffer&, const GpuModelOffer&) = default;
};

struct StorageClassOffer {
  std::string name;
  std::string provisioner;
  bool is_default = false;
  bool waits_for_first_consumer = false;
  friend bool operator==(const StorageClassOffer&, const StorageClassOffer&) = default;
};

// A NetworkAttachmentDefinition (k8s.cni.cncf.io/v1).
struct SecondNetwork {
  std::string k8s_namespace;
  std::string name;
  std::string resource;  // of its annotation k8s.v1.cni.cncf.io/resourceName; "" when it has none
  friend bool operator==(const SecondNetwork&, const SecondNetwork&) = default;
};

// A taint that keeps pods away (NoSchedule or NoExecute), with the number of nodes that have it.
struct TaintOffer {
  std::string key;
  std::string value;
  std::string effect;
  uint64_t nodes = 0;
  uint64_t gpu_nodes = 0;  // of these, nodes with GPUs
  friend bool operator==(const TaintOffer&, const TaintOffer&) = default;
};

struct KubernetesOffer {
  MinorVersion server;                  // of the API server
  std::vector<ServedKind> kinds;        // of discovery, all groups
  std::vector<GangMechanism> gangs;     // those that work here, the one to prefer first
  std::vector<std::string> schedulers;  // names seen in pods and deployments, "default-scheduler"
  std::string coscheduling_scheduler;   // the name under which the coscheduling plugin runs
  // Which of its four schemas the served TrainJob has, 2.0 to 2.3. Told by the CRD: runtimePatches
  // since 2.2 (with terminationGracePeriodSeconds since 2.3), podTemplateOverrides 2.1,
  // podSpecOverrides 2.0.
  std::optional<MinorVersion> trainer;
  std::vector<ExtendedResource> resources;
  std::vector<GpuModelOffer> gpu_models;
  std::vector<std::string> topology_labels;  // keys of node labels, the widest level first
  std::vector<TaintOffer> taints;
  std::vector<StorageClassOffer> storage_classes;
  std::vector<SecondNetwork> second_networks;
  // DeviceClasses of dynamic resource allocation; nothing: not there or not asked.
  std::optional<std::vector<std::string>> device_classes;
  // Kueue's LocalQueues in the namespace of the job; nothing: Kueue is not there or was not asked.
  std::optional<std::vector<std::string>> local_queues;
  // Node labels that are levels of a Topology which a flavor of Kueue places pods by: a job that
  // asks for another is never admitted. Nothing: not asked.
  std::optional<std::vector<std::string>> kueue_levels;

  // Null when the kind is not served in that group; `version` "" is any, the first listed.
  const ServedKind* find_kind(std::string_view group, std::string_view kind,
                              std::string_view version = "") const;
  const ExtendedResource* find_resource(std::string_view name) const;
  bool has_gang(GangMechanism mechanism) const;
};

// "kueue", "volcano", "coscheduling", "native".
std::string_view gang_name(GangMechanism mechanism);

// The newest of everything that shanty knows, for rendering without a cluster at hand. What only a
// cluster can tell (resources, models, taints, storage classes, networks) is empty.
KubernetesOffer newest_kubernetes_offer();
// Makes it that of an older or newer server, where the version decides what is served.
void set_kubernetes_version(KubernetesOffer& offer, MinorVersion version);

}  // namespace shanty
