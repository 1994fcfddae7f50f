#include <algorithm>

#include <fmt/format.h>

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

// "zone In [a, b] or [c]": the terms of a node selector as people read them.
std::string nodes_text(const NeedSets& sets) {
  std::vector<std::string> terms;
  for (const std::vector<LabelNeed>& set : sets) {
    std::vector<std::string> parts;
    for (const LabelNeed& need : set) parts.push_back(need_text(need));
    terms.push_back(fmt::format("{}", fmt::join(parts, " and ")));
  }
  return fmt::format("{}", fmt::join(terms, " or "));
}

// The claims of the first group, by whose pods the nodes are judged.
void judge_reach(const ProbeInput& in, std::vector<Finding>& findings) {
  const auto count = [&](auto test) { return std::ranges::count_if(in.fit.nodes, test); };
  const auto out_of_reach =
      count([](const NodeVerdict& each) { return each.state == NodeState::kNoVolume; });
  if (in.fit.fits || out_of_reach == 0) return;
  const bool is_everywhere =
      count([](const NodeVerdict& each) {
        return each.state != NodeState::kNoVolume && each.state != NodeState::kOther;
      }) == 0;
  Finding finding = make_finding(
      "STO054", is_everywhere ? Severity::kError : Severity::kWarning,
      is_everywhere ? "no node that the job may use reaches all volumes of its pods"
                    : counted(static_cast<size_t>(out_of_reach), "node") +
                          " could take the job but for a volume that is not reached from there");
  for (const std::string& name : in.workload.request.groups.front().claims) {
    const auto claim = in.snapshot.claims.find(name);
    if (claim == in.snapshot.claims.end() || claim->second.nodes.empty()) continue;
    finding.evidence.push_back({.text = "claim " + name + " is on volume " + claim->second.volume +
                                        ", for nodes with " + nodes_text(claim->second.nodes)});
  }
  findings.push_back(std::move(finding));
}

}  // namespace

// STO050: not there. STO051: access mode. STO052: not bound. STO054: not reached from the nodes.
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
  judge_reach(in, findings);
}

}  // namespace shanty::check
