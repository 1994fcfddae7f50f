#include "check/check.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "causes/report.h"
#include "check/limits.h"
#include "check/probe.h"

namespace shanty::check {
namespace {

constexpr const char* kProduct = "nvidia.com/gpu.product";

// "a100-80g" -> "a100", "80g".
std::vector<std::string> words_of(const std::string& model) {
  std::vector<std::string> words(1);
  for (const char c : model) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// All words of the user's model stand in the product: "80g" in "80gb".
bool is_model(const std::string& product, const std::string& model) {
  const std::vector<std::string> of_product = words_of(product);
  return std::ranges::all_of(words_of(model), [&](const std::string& word) {
    return std::ranges::any_of(of_product,
                               [&](const std::string& each) { return each.starts_with(word); });
  });
}

void narrow_to_model(const Snapshot& snapshot, Workload& workload) {
  if (workload.gpu_model.empty()) return;
  std::set<std::string> products;
  bool any_label = false;
  for (const NodeFacts& node : snapshot.nodes) {
    const auto found = node.fit.labels.find(kProduct);
    if (found == node.fit.labels.end()) continue;
    any_label = true;
    if (is_model(found->second, workload.gpu_model)) products.insert(found->second);
  }
  if (!any_label) return;
  LabelNeed need{.key = kProduct, .values = {products.begin(), products.end()}};
  if (products.empty()) need.values = {workload.gpu_model};
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
  if (report.workload.claims_devices) {
    report.unread.emplace_back(
        "devices that the pods get by claims of resource.k8s.io: whether enough are free is not "
        "counted");
  }
  if (report.workload.request.groups.empty()) {
    report.fit.fits = true;  // nothing asks for room any more
  } else {
    report.fit = compute_fit(nodes, snapshot.pods, report.workload.request);
    const ProbeInput input{snapshot, report.workload, report.fit};
    for (size_t i = 0; i < kProbeCount; ++i) kProbes[i].run(input, report.findings);
    consider_limits(snapshot, report.workload, report.fit);
  }
  for (Finding& finding : report.findings) complete(finding);
  std::ranges::stable_sort(report.findings, {}, [](const Finding& f) { return rank(f.severity); });
  return report;
}

}  // namespace shanty::check
