#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/kubernetes_offer.h"

namespace shanty::kube {

// Reading what an API server says it serves. Pure.

struct Served {
  std::vector<ServedKind> kinds;  // of a group, the version to prefer first
  std::vector<std::string> gaps;  // "metrics.k8s.io/v1beta1": known, but its server does not answer
};

// Two answers in one: of /api or /apis in the aggregated form (apidiscovery.k8s.io), or the old
// lists of versions and groups, whose resources have to be asked one by one.
struct DiscoveryAnswer {
  bool aggregated = false;
  Served served;                    // when aggregated
  std::vector<std::string> to_ask;  // else: "/api/v1", "/apis/batch/v1", ...
};
Result<DiscoveryAnswer> parse_discovery(std::string_view body);

// Adds what an APIResourceList (of "/apis/batch/v1") says.
Status add_resource_list(std::string_view body, Served& served);

}  // namespace shanty::kube
