#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "check/snapshot.h"
#include "kube/client.h"

namespace shanty::check {

// Reads what probes look at. Fails only when nothing can be said without it (the server does not
// answer, nodes may not be listed); all else that cannot be read goes into `unread`.
kube::ApiResult<Snapshot> read_snapshot(kube::Client& client, const std::string& k8s_namespace);

// The runtimes of TrainJobs among `objects` that are not among them themselves. One that cannot be
// read is told in `problems`.
std::vector<nlohmann::json> read_runtimes(kube::Client& client,
                                          const std::vector<nlohmann::json>& objects,
                                          const std::string& k8s_namespace,
                                          std::vector<std::string>& problems);

}  // namespace shanty::check
