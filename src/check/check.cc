#include "check/check.h"

#include <algorithm>
#include <map>
#include <set>

#include "causes/report.h"
#include "check/limits.h"
#include "check/probe.h"
#include "render/gpu_model.h"

namespace shanty::check {
namespace {

constexpr const char* kProduct = "nvidia.com/gpu.product";

void narrow_to_model(const Snapshot& snapshot, Workload& workload) {
  if (workload.gpu_model.empty()) return;
  std::set<std::string> labels;
  for (const NodeFacts& node : snapshot.nodes) {
    const auto found = node.fit.labels.find(kProduct);
    if (found != node.fit.labels.end()) labels.insert(found->second);
  }
  if (labels.empty()) return;
  KubernetesOffer offer;
  for (const std::string& label : labels) offer.gpu_models.push_back({.product = label});
  LabelNeed need{.key = kProduct, .values = gpu_products(workload.gpu_model, offer)};
  if (need.values.empty()) need.values = {workload.gpu_model};
  if (workload.request.needs.empty()) workload.request.needs.emplace_back();
  for (auto& set : workload.request.needs) set.push_back(need);
}

void take_priority(const Snapshot& snapshot, Workload& workload) {
  FitRequest& request = workload.request;
  request.k8s_namespace = workload.k8s_namespace;
  const auto is_its_class = [&](const PriorityFacts& each) {
    return workload.priority_class.empty() ? each.is_default : each.name == workload.priority_class;
  };
  const auto found = std::ranges::find_if(snapshot.priority_classes, is_its_class);
  if (found == snapshot.priority_classes.end()) return;
  request.priority = found->value;
  request.preempts = found->preempts;
}

std::vector<NeedSets> volumes_of(const Snapshot& snapshot, const FitGroup& group) {
  std::vector<NeedSets> out;
  for (const std::string& name : group.claims) {
    const auto claim = snapshot.claims.find(name);
    if (claim != snapshot.claims.end() && !claim->second.nodes.empty()) {
      out.push_back(claim->second.nodes);
    }
  }
  return out;
}

// Pods run where their volumes are, whatever else they ask for.
void bind_to_volumes(const Snapshot& snapshot, FitRequest& request) {
  request.volumes = volumes_of(snapshot, request.groups.front());
  for (FitGroup& group : request.groups) {
    std::vector<NeedSets> volumes = volumes_of(snapshot, group);
    if (!group.placement) {
      if (volumes == request.volumes) continue;
      group.placement = FitPlacement{.needs = request.needs,
                                     .tolerations = request.tolerations,
                                     .topology_label = request.topology_label};
    }
    group.placement->volumes = std::move(volumes);
  }
}

int rank(Severity severity) { return static_cast<int>(severity); }  // errors first

}  // namespace

bool CheckReport::fits() const {
  const bool grave = std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.severity == Severity::kError || says_limit(finding);
  });
  return fit.fits && !grave;
}

bool CheckReport::has_problems() const {
  return !fits() || std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.severity != Severity::kNote;
  });
}

CheckReport evaluate(const Snapshot& snapshot, Workload workload) {
  return evaluate_pending(snapshot, std::move(workload), {});
}

CheckReport evaluate_pending(const Snapshot& snapshot, Workload workload,
                             std::vector<Finding> more) {
  narrow_to_model(snapshot, workload);
  take_priority(snapshot, workload);
  std::vector<FitNode> nodes;
  for (const NodeFacts& node : snapshot.nodes) nodes.push_back(node.fit);
  CheckReport report{.workload = std::move(workload),
                     .findings = std::move(more),
                     .unread = snapshot.unread,
                     .context = snapshot.context,
                     .now_unix_s = snapshot.now_unix_s};
  FitRequest request = report.workload.request;
  bool claims = report.workload.claims_devices;
  for (FitGroup& group : request.groups) {
    const size_t left_out = std::erase_if(
        group.per_pod, [&](const auto& each) { return snapshot.gives_by_claims(each.first); });
    claims = claims || left_out > 0;
  }
  if (claims) {
    report.unread.emplace_back(
        "devices that the pods get by claims of resource.k8s.io: whether enough are free is not "
        "counted");
  }
  if (report.workload.request.groups.empty()) {
    report.fit.fits = true;  // nothing asks for room any more
  } else {
    bind_to_volumes(snapshot, request);
    report.fit = compute_fit(nodes, snapshot.pods, request);
    const ProbeInput input{snapshot, report.workload, report.fit};
    for (size_t i = 0; i < kProbeCount; ++i) kProbes[i].run(input, report.findings);
    consider_limits(snapshot, report.workload, report.fit);
  }
  for (Finding& finding : report.findings) complete(finding);
  std::ranges::stable_sort(report.findings, {}, [](const Finding& f) { return rank(f.severity); });
  return report;
}

}  // namespace shanty::check
