#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "causes/finding.h"

namespace shanty {

// What the inputs beside the logs say. Strings that are empty and numbers that are -1 are unknown.

struct PodFact {
  std::string name;
  std::string node;
  std::string phase;   // "Running"
  std::string reason;  // of the pod's status: "Evicted"
  std::string message;
  std::string pod_ip;
  std::string host_ip;
  bool host_network = false;
  std::string dns_policy;
  bool has_sidecar = false;  // istio-proxy, linkerd-proxy
  bool shm_mounted = false;  // a volume at /dev/shm
  int64_t restarts = 0;
  std::string last_reason;  // of the last termination: "OOMKilled"
  int last_exit_code = -1;
  std::string waiting_reason;  // "ImagePullBackOff"
  std::string waiting_message;
  std::string disruption;  // reason of the condition DisruptionTarget
  std::string image_id;
  int64_t gpus = 0;  // limit of nvidia.com/gpu
  std::map<std::string, std::string> env;
  Evidence where;
};

struct NodeFact {
  std::string name;
  int64_t gpus_allocatable = -1;
  Evidence where;
};

// A group of pods that start together or not at all, and wait.
struct GangFact {
  std::string name;
  Evidence where;
};

struct GpuFact {
  std::string node;
  int index = -1;
  std::string name;
  std::string bus;
  int utilisation = -1;  // percent
  double power_w = -1;
  double power_limit_w = -1;
  int64_t memory_used_mib = -1;
  int64_t memory_total_mib = -1;
  int processes = 0;
  int64_t uncorrectable_errors = 0;
  Evidence where;
};

// A thread of a py-spy dump: where it stands, innermost first.
struct StackFact {
  int rank = -1;
  int64_t pid = -1;
  std::vector<std::string> frames;
  Evidence where;
};

// A bandwidth that was measured: nccl-tests (bus bandwidth) or iperf3.
struct BandwidthFact {
  std::string what;  // "all_reduce_perf", "iperf3"
  double gigabytes_per_s = -1;
  int64_t wrong = 0;        // of nccl-tests: values that were wrong
  int64_t retransmits = 0;  // of iperf3
  Evidence where;
};

// A link between two GPUs or a GPU and a NIC, of `nvidia-smi topo -m`: "NV12", "PIX", "SYS".
struct LinkFact {
  std::string from;
  std::string to;
  std::string kind;
  Evidence where;
};

struct ClusterFacts {
  std::vector<PodFact> pods;
  std::vector<NodeFact> nodes;
  std::vector<GangFact> gangs;
  std::vector<GpuFact> gpus;
  std::vector<StackFact> stacks;
  std::vector<BandwidthFact> bandwidths;
  std::vector<LinkFact> links;
  std::vector<std::string> nccl_topology_nets;  // devices named in a topology file
};

}  // namespace shanty
