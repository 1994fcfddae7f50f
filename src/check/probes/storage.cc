#include <algorithm>

#include "check/probes/areas.h"

namespace shanty::check {
namespace {

bool has_mode(const ClaimFacts& claim, const char* mode) {
  return std::ranges::find(claim.access_modes, mode) != claim.access_modes.end();
}

void judge_mode(const ClaimFacts& claim, const ClaimUse& use, std::vector<Finding>& findings) {
  if (!use.many_nodes || has_mode(claim, "ReadWriteMany")) return;
  if (use.read_only && has_mode(claim, "ReadOnlyMany")) return;
  Finding finding =
      make_finding("STO051", Severity::kError,
                   "claim " + claim.name + " can be mounted by one node at a time (" +
                       joined(claim.access_modes) + "), and the job has pods on several");
  if (has_mode(claim, "ReadOnlyMany")) {
    finding.message = "claim " + claim.name +
                      " can be mounted by several nodes only to read, and the job writes to it";
  }
  findings.push_back(std::move(finding));
}

}  // namespace

// STO050: not there. STO051: access mode. STO052: not bound.
void probe_storage(const ProbeInput& in, std::vector<Finding>& findings) {
  for (const ClaimUse& use : in.workload.claims) {
    const auto found = in.snapshot.claims.find(use.name);
    if (found == in.snapshot.claims.end()) {
      findings.push_back(make_finding(
          "STO050", Severity::kError,
          "namespace " + in.snapshot.k8s_namespace + " has no PersistentVolumeClaim " + use.name));
      continue;
    }
    const ClaimFacts& claim = found->second;
    judge_mode(claim, use, findings);
    if (claim.is_new) continue;  // nothing has had a chance to bind it
    const auto late = in.snapshot.late_binding.find(claim.storage_class);
    const bool binds_late = late != in.snapshot.late_binding.end() && late->second;
    if (claim.terminating) {
      findings.push_back(
          make_finding("STO052", Severity::kError, "claim " + claim.name + " is being deleted"));
    } else if (claim.phase != "Bound" && !(claim.phase == "Pending" && binds_late)) {
      findings.push_back(make_finding("STO052", Severity::kError,
                                      "claim " + claim.name + " is " +
                                          (claim.phase.empty() ? "Pending" : claim.phase) +
                                          ": pods that mount it stay Pending"));
    }
  }
}

}  // namespace shanty::check
