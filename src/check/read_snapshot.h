#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "check/snapshot.h"
#include "kube/client.h"

namespace shanty::check {

// Reads what probes look at. Fails only when nothing can be said without it (the server does not
// answer, nodes may not be listed); all else that cannot be read goes into `unread`.
kube::ApiResult<Snapshot> read_snapshot(kube::Client& client, const std::string& k8s_namespace);

// Has the server check the objects without storing them: schema, webhooks, quotas, pod security.
void try_objects(kube::Client& client, const std::vector<nlohmann::json>& objects,
                 Snapshot& snapshot);

}  // namespace shanty::check
