#include <algorithm>

#include "check/probes/areas.h"

namespace shanty::check {

// IMG050: a pull secret is not there.
void probe_images(const ProbeInput& in, std::vector<Finding>& findings) {
  if (!in.snapshot.secrets) return;
  for (const std::string& name : in.workload.pull_secrets) {
    if (std::ranges::find(*in.snapshot.secrets, name) != in.snapshot.secrets->end()) continue;
    findings.push_back(
        make_finding("IMG050", Severity::kError,
                     "namespace " + in.snapshot.k8s_namespace + " has no Secret " + name +
                         " to pull images with: a registry that asks for a login will refuse"));
  }
}

}  // namespace shanty::check
