#include <algorithm>
#include <optional>
#include <string_view>

#include "check/objects.h"
#include "check/probes/areas.h"

namespace shanty::check {
namespace {

constexpr std::string_view kLimits = "limits.";

// "requests.cpu", "limits.memory", "requests.nvidia.com/gpu", "cpu", "pods" -> what it counts.
std::string counted_resource(const std::string& name) {
  for (const std::string_view prefix : {std::string_view("requests."), kLimits}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

// The PriorityClass that its pods get.
std::string priority_class(const ProbeInput& in) {
  if (!in.workload.priority_class.empty()) return in.workload.priority_class;
  const auto usual =
      std::ranges::find(in.snapshot.priority_classes, true, &PriorityFacts::is_default);
  return usual == in.snapshot.priority_classes.end() ? "" : usual->name;
}

bool asks_for_nothing(const Workload& workload) {
  return std::ranges::all_of(workload.request.groups, [](const FitGroup& group) {
    return !group.per_pod.contains("cpu") && !group.per_pod.contains("memory") &&
           group.limits.empty();
  });
}

// Nothing: it cannot be told.
std::optional<bool> is_in_scope(const ProbeInput& in, const QuotaScope& scope) {
  if (scope.name == "Terminating") return in.workload.has_deadline;
  if (scope.name == "NotTerminating") return !in.workload.has_deadline;
  if (scope.name == "BestEffort") return asks_for_nothing(in.workload);
  if (scope.name == "NotBestEffort") return !asks_for_nothing(in.workload);
  if (scope.name != "PriorityClass") return std::nullopt;
  const std::string name = priority_class(in);
  const bool listed = std::ranges::find(scope.values, name) != scope.values.end();
  if (scope.op == "In") return listed;
  if (scope.op == "NotIn") return !listed;
  return (scope.op == "Exists") == !name.empty();
}

int64_t amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

void judge_quota(const ProbeInput& in, const QuotaFacts& quota, std::vector<Finding>& findings) {
  bool is_sure = true;
  for (const QuotaScope& scope : quota.scopes) {
    const auto inside = is_in_scope(in, scope);
    if (inside == false) return;  // it does not count these pods
    is_sure = is_sure && inside.has_value();
  }
  const Amounts limits = in.workload.total_limits();
  Amounts asked = in.workload.total();
  asked["pods"] = asked["count/pods"] = static_cast<int64_t>(in.workload.pods());
  for (const auto& [name, hard] : quota.hard) {
    const std::string resource = counted_resource(name);
    const int64_t wanted = amount_of(name.starts_with(kLimits) ? limits : asked, resource);
    const int64_t used = amount_of(quota.used, name);
    if (wanted == 0 || used + wanted <= hard) continue;
    const bool never = wanted > hard;
    Finding finding = make_finding(
        "SCHED056", never ? Severity::kError : Severity::kWarning,
        "quota " + quota.name + " of namespace " + in.snapshot.k8s_namespace + " allows " +
            amount_text(resource, hard) + " " + name + ", " + amount_text(resource, used) +
            " are used, the job asks for " + amount_text(resource, wanted));
    if (!is_sure) {
      finding.severity = Severity::kWarning;
      finding.confidence = 0.5;
      finding.ruled_out.push_back("the quota counts only some pods; whether these, is not told");
    }
    findings.push_back(std::move(finding));
  }
}

void judge_limit(const ProbeInput& in, const LimitFacts& limit, std::vector<Finding>& findings) {
  if (limit.type != "Pod" && limit.type != "Container") return;
  for (const FitGroup& group : in.workload.request.groups) {
    if (limit.type == "Container" && group.containers != 1) continue;  // only their sum is known
    for (const auto& [name, asked] : group.per_pod) {
      const auto most = limit.most.find(name);
      const auto least = limit.least.find(name);
      const bool above = most != limit.most.end() && asked > most->second;
      const bool below = least != limit.least.end() && asked < least->second;
      if (!above && !below) continue;
      findings.push_back(make_finding("SCHED057", Severity::kError,
                                      "LimitRange " + limit.name + " allows a " + limit.type +
                                          (above ? " at most " : " no less than ") +
                                          amount_text(name, above ? most->second : least->second) +
                                          " " + name + ", a pod of the job asks for " +
                                          amount_text(name, asked)));
    }
  }
}

}  // namespace

// SCHED056: ResourceQuota. SCHED057: LimitRange.
void probe_quota(const ProbeInput& in, std::vector<Finding>& findings) {
  for (const QuotaFacts& quota : in.snapshot.quotas) judge_quota(in, quota, findings);
  if (in.snapshot.pods_tried) return;  // the server itself has said what it thinks of the pods
  for (const LimitFacts& limit : in.snapshot.limits) judge_limit(in, limit, findings);
}

}  // namespace shanty::check
