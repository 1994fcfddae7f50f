#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shanty {

// A job file as plain data. An empty optional means "auto" where the key accepts that word, else
// "not told". Keys, ranges and documentation of each field are in job/keys.cc.

enum class Framework { kDdp, kFsdp, kOther };
enum class LrScaling { kAuto, kLinear, kSqrt, kNone };
enum class Dtype { kFp32, kBf16, kFp16 };
enum class Optimizer { kAdamw, kAdam, kSgd, kOther };
enum class CodeSource { kAuto, kConfigMap, kGit, kImage };
enum class PullPolicy { kIfNotPresent, kAlways, kNever };

struct NodeRange {
  uint64_t min = 1;
  uint64_t max = 1;
  friend bool operator==(const NodeRange&, const NodeRange&) = default;
};

// A share of the run, or steps when those are set.
struct Warmup {
  double share = 0.05;
  std::optional<uint64_t> steps;
  friend bool operator==(const Warmup&, const Warmup&) = default;
};

using EnvMap = std::vector<std::pair<std::string, std::string>>;

struct RunSpec {
  std::string script;
  std::string module;
  std::vector<std::string> args;
  std::string python;
  bool no_python = false;
  Framework framework = Framework::kDdp;
  std::string image;
  EnvMap env;
  std::string working_dir;
  friend bool operator==(const RunSpec&, const RunSpec&) = default;
};

// What gpu.resource says of a job on CPUs.
inline constexpr std::string_view kNoGpus = "none";

struct GpuSpec {
  std::string model;
  std::string resource = "nvidia.com/gpu";  // "none": processes on CPUs
  std::string device_class;                 // of dynamic resource allocation, instead
  friend bool operator==(const GpuSpec&, const GpuSpec&) = default;
};

struct NetworkSpec {
  std::optional<bool> rdma;
  std::string rdma_resource;  // NAME or NAME=COUNT
  std::vector<std::string> networks;
  std::string interface;  // empty: auto
  std::optional<bool> host_network;
  std::optional<double> bandwidth_bytes_per_s;
  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

struct BatchSpec {
  std::optional<uint64_t> per_gpu;
  std::optional<double> base_lr;
  std::optional<uint64_t> base_batch;
  LrScaling scaling = LrScaling::kAuto;
  Warmup warmup;
  uint64_t accumulation = 1;
  friend bool operator==(const BatchSpec&, const BatchSpec&) = default;
};

struct LoaderSpec {
  std::optional<uint64_t> workers;
  uint64_t prefetch = 4;
  std::optional<uint64_t> shm_bytes;
  friend bool operator==(const LoaderSpec&, const LoaderSpec&) = default;
};

// How the script gets into the pods.
struct CodeSpec {
  CodeSource from = CodeSource::kAuto;
  std::vector<std::string> files;  // that go along with the script
  std::string git;
  std::string revision;
  std::string git_image = "alpine/git:v2.47.2";
  std::string secret;
  friend bool operator==(const CodeSpec&, const CodeSpec&) = default;
};

struct DataMount {
  std::string claim;
  std::string mount;
  bool read_only = true;
  std::string stage;
  friend bool operator==(const DataMount&, const DataMount&) = default;
};

struct CheckpointSpec {
  std::string claim;
  std::string mount;
  std::string dir;
  std::optional<uint64_t> size_bytes;
  std::string storage_class;
  std::optional<double> every_s;
  uint64_t keep = 3;
  uint64_t milestones = 0;
  std::optional<double> cost_s;
  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

struct ScheduleSpec {
  std::string k8s_namespace;
  std::string queue;
  std::optional<bool> gang;
  std::string topology;
  std::string priority;
  EnvMap node_selector;
  std::vector<std::string> tolerations;
  double ttl_s = 86400;
  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// The pod of a node, beside what other sections say.
struct PodSpec {
  std::optional<uint64_t> cpus;
  std::optional<uint64_t> memory_bytes;
  uint64_t user = 1000;
  std::string service_account;
  PullPolicy pull_policy = PullPolicy::kIfNotPresent;
  std::vector<std::string> pull_secrets;
  EnvMap labels;
  EnvMap annotations;
  std::string shanty_image = "shanty:" SHANTY_VERSION;
  friend bool operator==(const PodSpec&, const PodSpec&) = default;
};

struct RestartSpec {
  uint64_t max = 10;
  double window_s = 3600;
  bool warm = true;
  std::optional<double> hang_after_s;
  double grace_s = 15;
  double rejoin_s = 1800;
  friend bool operator==(const RestartSpec&, const RestartSpec&) = default;
};

struct FailureSpec {
  std::optional<double> per_day;
  std::optional<double> mtbf_s;
  friend bool operator==(const FailureSpec&, const FailureSpec&) = default;
};

struct ModelSpec {
  std::optional<double> params;
  Dtype dtype = Dtype::kFp32;
  Optimizer optimizer = Optimizer::kAdamw;
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

struct Job {
  std::string name;  // never empty after parse_job: the script's name when not told
  RunSpec run;
  NodeRange nodes;
  uint64_t gpus_per_node = 1;  // worker processes per node, on GPUs or CPUs
  GpuSpec gpu;
  NetworkSpec network;
  BatchSpec batch;
  std::optional<uint64_t> steps;
  LoaderSpec loader;
  CodeSpec code;
  std::vector<DataMount> data;
  CheckpointSpec checkpoint;
  ScheduleSpec schedule;
  PodSpec pod;
  RestartSpec restart;
  FailureSpec failures;
  ModelSpec model;
  friend bool operator==(const Job&, const Job&) = default;
};

}  // namespace shanty
