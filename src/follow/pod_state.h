#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace shanty::follow {

struct ContainerState {
  enum class Phase { kWaiting, kRunning, kEnded };

  std::string name;
  std::string image;
  bool is_init = false;
  Phase phase = Phase::kWaiting;
  std::string reason;   // why it waits ("ErrImagePull") or how it ended ("OOMKilled")
  std::string message;  // the kubelet's words
  int exit_code = 0;    // when it has ended
  int restarts = 0;
};

// A pod of a job, as its API object tells.
struct PodState {
  std::string name;
  std::string uid;
  std::string job;         // label shanty.dev/job; "" = none
  std::string node;        // "" = it has no place yet
  int node_rank = -1;      // of the job; -1 = not told
  bool is_helper = false;  // no node of the job, such as the head of a Ray cluster
  std::string phase;       // Pending, Running, Succeeded, Failed, Unknown
  std::string reason;      // of the pod itself: "Evicted"
  std::string message;
  std::string no_place_why;  // the scheduler's words
  bool is_gated = false;     // somebody else must let the scheduler see it
  bool is_leaving = false;   // deleted, but still there
  int64_t created_unix_s = 0;
  std::vector<ContainerState> containers;  // init containers first, in their order
  std::string gpu_resource;                // "nvidia.com/gpu"; "" = it asks for none
  uint64_t gpus = 0;
  std::string run_dir;         // of the agent's command line; "" = not told
  bool run_dir_stays = false;  // it lies on a claim, which outlives the pod

  bool has_ended() const { return phase == "Succeeded" || phase == "Failed"; }
  // The first container that is no init container; null when the object tells of none.
  const ContainerState* trainer() const;
  ContainerState* trainer();
};

// Nothing when `object` is no pod.
std::optional<PodState> read_pod(const nlohmann::json& object);

}  // namespace shanty::follow
