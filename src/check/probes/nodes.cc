#include <algorithm>
#include <map>

#include "check/probes/areas.h"

namespace shanty::check {
namespace {

std::vector<std::string> names_in(const ProbeInput& in, NodeState state) {
  std::vector<std::string> names;
  for (size_t i = 0; i < in.fit.nodes.size(); ++i) {
    if (in.fit.nodes[i].state == state) names.push_back(in.snapshot.nodes[i].fit.name);
  }
  return names;
}

// A node that would do but for its state is news; when the job fits without it, a small one.
Severity weight(const ProbeInput& in) { return in.fit.fits ? Severity::kNote : Severity::kWarning; }

void report(const ProbeInput& in, const char* code, const std::vector<std::string>& nodes,
            const std::string& message, std::vector<Finding>& findings) {
  Finding finding = make_finding(code, weight(in), message);
  finding.subject.nodes = nodes;
  findings.push_back(std::move(finding));
}

}  // namespace

// SCHED052: taints. SCHED053: cordoned or not ready. SCHED054: no node has the labels asked for.
void probe_nodes(const ProbeInput& in, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<std::string>> by_taint;
  for (size_t i = 0; i < in.fit.nodes.size(); ++i) {
    const NodeVerdict& verdict = in.fit.nodes[i];
    if (verdict.state != NodeState::kTainted) continue;
    const Taint& taint = verdict.taint;
    by_taint[taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect]
        .push_back(in.snapshot.nodes[i].fit.name);
  }
  for (const auto& [taint, nodes] : by_taint) {
    report(in, "SCHED052", nodes,
           counted(nodes.size(), "node") + " could take the job but for the taint " + taint + ": " +
               joined(nodes),
           findings);
  }
  if (const auto cordoned = names_in(in, NodeState::kCordoned); !cordoned.empty()) {
    report(in, "SCHED053", cordoned,
           counted(cordoned.size(), "node") +
               " could take the job but for a cordon: " + joined(cordoned),
           findings);
  }
  if (const auto not_ready = names_in(in, NodeState::kNotReady); !not_ready.empty()) {
    report(in, "SCHED053", not_ready,
           counted(not_ready.size(), "node") +
               " could take the job but is not ready: " + joined(not_ready),
           findings);
    for (const NodeFacts& node : in.snapshot.nodes) {
      if (!node.fit.ready && findings.back().evidence.size() < kMaxNamed) {
        findings.back().evidence.push_back({.text = node.fit.name + ": " + node.not_ready_reason});
      }
    }
  }
  const bool none_match = std::ranges::all_of(
      in.fit.nodes, [](const NodeVerdict& v) { return v.state == NodeState::kOther; });
  if (in.fit.nodes.empty() || !none_match) return;
  std::string asked;
  for (const auto& set : in.workload.request.needs) {
    for (const LabelNeed& need : set) asked += (asked.empty() ? "" : ", ") + need_text(need);
  }
  if (asked.empty()) asked = in.workload.request.topology_label;
  findings.push_back(make_finding("SCHED054", Severity::kError,
                                  "no node has the labels that are asked for: " + asked));
}

}  // namespace shanty::check
