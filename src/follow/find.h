#pragma once

#include <optional>
#include <string>
#include <vector>

#include "follow/pod_state.h"
#include "follow/workload.h"
#include "kube/client.h"

namespace shanty::follow {

// A job of shanty on a cluster, as labels find it.
struct FoundJob {
  std::string name;
  std::string k8s_namespace;
  std::optional<WorkloadState> workload;  // nothing: bare pods
  std::vector<PodState> pods;             // by node rank
  std::optional<QueuePlace> place;        // in Kueue's queue

  // "queued", "stopped", "pending", "starting", "running", "succeeded", "failed", "leaving".
  std::string state() const;
  size_t running() const;  // of the nodes
  size_t nodes() const;    // pods that are nodes of the job
  int64_t created_unix_s() const;
};

// All jobs of the client's namespace, newest first; with `job` only that one. Kinds that the
// cluster does not serve, or of which this user may see nothing, are passed over.
kube::ApiResult<std::vector<FoundJob>> find_jobs(kube::Client& client, const std::string& job = "");

// The job called `name` there. The error says what there is instead.
kube::ApiResult<FoundJob> find_job(kube::Client& client, const std::string& name);

// Where objects of that kind called `name` are, in the client's namespace.
kube::ApiResult<kube::ObjectRef> reference(kube::Client& client, const std::string& group,
                                           const std::string& kind, const std::string& name);

}  // namespace shanty::follow
