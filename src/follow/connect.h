#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "kube/client.h"

namespace shanty::follow {

// Which cluster, as said on a command line.
struct ClusterChoice {
  std::string on;             // "kubernetes" or "kubernetes:CONTEXT"
  std::string k8s_namespace;  // empty: the context's
};

// Why `on` names no cluster; "" = it does.
std::string problem_of(const std::string& on);

// A client by the kubeconfig of this user, or by the pod this runs in. `stop` ends its requests.
Result<std::unique_ptr<kube::Client>> connect(const ClusterChoice& choice, std::stop_token stop);

}  // namespace shanty::follow
