#include <algorithm>

#include "check/objects.h"
#include "check/probes/areas.h"

namespace shanty::check {
namespace {

// "requests.cpu", "limits.memory", "requests.nvidia.com/gpu", "cpu", "pods" -> what it counts.
std::string counted_resource(const std::string& name) {
  for (const char* prefix : {"requests.", "limits."}) {
    if (name.starts_with(prefix)) return name.substr(std::string_view(prefix).size());
  }
  return name;
}

int64_t amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

void judge_quota(const ProbeInput& in, const QuotaFacts& quota, std::vector<Finding>& findings) {
  Amounts asked = in.workload.total();
  asked["pods"] = asked["count/pods"] = static_cast<int64_t>(in.workload.pods());
  for (const auto& [name, hard] : quota.hard) {
    const std::string resource = counted_resource(name);
    const int64_t wanted = amount_of(asked, resource);
    const int64_t used = amount_of(quota.used, name);
    if (wanted == 0 || used + wanted <= hard) continue;
    const bool never = wanted > hard;
    Finding finding = make_finding(
        "SCHED056", never ? Severity::kError : Severity::kWarning,
        "quota " + quota.name + " of namespace " + in.snapshot.k8s_namespace + " allows " +
            amount_text(resource, hard) + " " + name + ", " + amount_text(resource, used) +
            " are used, the job asks for " + amount_text(resource, wanted));
    if (quota.scoped) {
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
  for (const LimitFacts& limit : in.snapshot.limits) judge_limit(in, limit, findings);
}

}  // namespace shanty::check
