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

// What one paragraph of a report of NCCL's RAS (`ncclras`) tells.
struct RasParagraph {
  enum class Kind {
    kDead,     // processes that RAS has not reached for a minute
    kMissing,  // processes or ranks that did not answer, yet
    kUnlike,   // ranks of a communicator that have launched different numbers of operations
    kFailed,   // ranks that report errors
  };
  Kind kind = Kind::kMissing;
  std::string communicator;     // its hash; empty where the paragraph is about processes
  std::string what;             // "AllReduce": whose counts differ
  int64_t named = 0;            // how many it speaks of; it lists only few of many
  std::vector<Evidence> lines;  // the headline first
  // Ranks that it lists, by how many operations they have launched; 0 where it counts none.
  std::map<int64_t, std::vector<int>> ranks;
  std::map<int64_t, int64_t> how_many;             // ranks of each count, listed or not
  std::map<std::string, std::vector<int>> errors;  // ranks by what they reported
  std::vector<std::string> nodes;                  // of those listed
};

struct ClusterFacts {
  std::vector<PodFact> pods;
  std::vector<NodeFact> nodes;
  std::vector<GangFact> gangs;
  std::vector<GpuFact> gpus;
  std::vector<StackFact> stacks;
  std::vector<BandwidthFact> bandwidths;
  std::vector<LinkFact> links;
  std::vector<RasParagraph> ras;
  std::vector<std::string> nccl_topology_nets;  // devices named in a topology file
};

}  // namespace shanty
