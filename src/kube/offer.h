#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cluster/kubernetes_offer.h"
#include "kube/api_result.h"
#include "kube/client.h"

namespace shanty::kube {

struct DiscoveredOffer {
  KubernetesOffer offer;
  std::vector<std::string> unread;  // what could not be asked, as sentences
};

// Asks the cluster what it has for a job in `k8s_namespace`. Fails when it does not answer at all;
// what this user may not see stays empty and is told in `unread`.
ApiResult<DiscoveredOffer> discover_offer(Client& client, const std::string& k8s_namespace);

// --- the parts, pure ---

// Resources, GPU models, topology labels and taints of nodes.
void read_node_offers(const std::vector<nlohmann::json>& nodes, KubernetesOffer& offer);
// By the fields of the TrainJob's CustomResourceDefinition.
std::optional<MinorVersion> trainer_version(const nlohmann::json& crd);
// "1.37" of the answer to /version; minor versions may read "37+".
MinorVersion server_version(const nlohmann::json& version);

}  // namespace shanty::kube
