#pragma once

#include <string>
#include <vector>

#include "render/context.h"

namespace shanty {

// An environment variable of the container: a value, or a field of the pod.
struct PodVariable {
  std::string name;
  std::string value;
  std::string field;  // "metadata.labels['...']"
  std::string why;    // the comment above it
};

// What a target says about its pods; all else follows from the job.
// Its GPUs come by a claim of dynamic resource allocation.
inline bool claims_devices(const RenderContext& c) {
  return !c.job.gpu.device_class.empty() && c.job.gpu.resource != kNoGpus;
}

struct PodFrame {
  std::string container = "trainer";
  // Where the pods find node 0; "" when the target's own variables tell.
  std::string master_addr;
  std::vector<PodVariable> identity;
  std::string restart_policy;  // "" = not in the template
  std::string why_restart;
  std::string hostname;
  std::string subdomain;
  // Nodes to choose by labels and taints are told elsewhere.
  bool placement_elsewhere = false;
  // The pod does no training: it gets no GPUs and little else.
  bool is_idle = false;
  // The operator makes the group and its members; only the scheduler is left to name.
  bool operator_makes_gang = false;
  // A key of the ConfigMap that is mounted beside job.yaml.
  std::string config_file;
  // A port that the operator would open itself if there is none of that name.
  std::string port_name;
  // The operator gives the command.
  bool image_runs_itself = false;
};

// Mount points in the pods.
inline constexpr const char* kShantyDir = "/opt/shanty";
inline constexpr const char* kConfigDir = "/etc/shanty/job";
inline constexpr const char* kTokenDir = "/etc/shanty/token";
inline constexpr const char* kCodeDir = "/shanty/code";
inline constexpr const char* kHomeDir = "/shanty/home";

// {metadata, spec} of a pod that is one node of the job.
Yaml pod_template(const RenderContext& c, const PodFrame& frame);

// nodeSelector, affinity and tolerations of the job, set into `spec` of a pod.
void add_placement(const RenderContext& c, Yaml& spec);
bool has_placement(const RenderContext& c);
// The node label of schedule.topology; "" when there is none to heed.
std::string kueue_topology(const RenderContext& c);

// The run directory lies on the checkpoint claim.
bool run_dir_is_shared(const RenderContext& c);
std::string run_dir(const RenderContext& c);
// The command line of one node.
std::vector<std::string> agent_command(const RenderContext& c, const std::string& master_addr);
// The path of shanty in the container.
std::string shanty_path(const RenderContext& c);

// "64Gi", "512M": a Kubernetes quantity.
std::string quantity(uint64_t bytes);

}  // namespace shanty
