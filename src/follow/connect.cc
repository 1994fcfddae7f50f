#include "follow/connect.h"

#include "os/process.h"

namespace shanty::follow {
namespace {

constexpr std::string_view kKubernetes = "kubernetes";

}  // namespace

std::string problem_of(const std::string& on) {
  if (on == kKubernetes) return "";
  if (!on.starts_with(std::string(kKubernetes) + ":")) {
    return "--on " + on +
           ": expected kubernetes, or kubernetes:CONTEXT with a context of the "
           "kubeconfig";
  }
  return on.size() == kKubernetes.size() + 1 ? "--on " + on + ": the context is missing" : "";
}

Result<std::unique_ptr<kube::Client>> connect(const ClusterChoice& choice, std::stop_token stop) {
  const std::string problem = problem_of(choice.on);
  if (!problem.empty()) return Error{problem};
  kube::AccessOptions access{.k8s_namespace = choice.k8s_namespace, .env = current_environment()};
  if (choice.on != kKubernetes) access.context = choice.on.substr(kKubernetes.size() + 1);
  kube::ClientOptions options;
  options.stop = std::move(stop);
  return kube::Client::create(TRY(kube::find_access(access)), std::move(options));
}

}  // namespace shanty::follow
