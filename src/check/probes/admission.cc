#include <algorithm>

#include "check/probes/areas.h"

namespace shanty::check {

// SCHED058: the server refuses an object. SCHED059: namespace or priority class is not there.
// SCHED060: nobody schedules for that schedulerName. SEC050: pods beyond the namespace's level.
void probe_admission(const ProbeInput& in, std::vector<Finding>& findings) {
  const Snapshot& snapshot = in.snapshot;
  const Workload& workload = in.workload;
  if (!snapshot.namespace_exists) {
    findings.push_back(make_finding("SCHED059", Severity::kError,
                                    "there is no namespace " + snapshot.k8s_namespace));
  }
  const bool builtin = workload.priority_class.starts_with("system-");
  if (!workload.priority_class.empty() && !builtin && !snapshot.priority_classes.empty() &&
      std::ranges::find(snapshot.priority_classes, workload.priority_class, &PriorityFacts::name) ==
          snapshot.priority_classes.end()) {
    std::vector<std::string> names;
    for (const PriorityFacts& each : snapshot.priority_classes) names.push_back(each.name);
    findings.push_back(make_finding(
        "SCHED059", Severity::kError,
        "there is no PriorityClass " + workload.priority_class + "; there are " + joined(names)));
  }
  const std::string& scheduler = workload.scheduler;
  const bool known = scheduler.empty() || scheduler == "default-scheduler" ||
                     std::ranges::find(snapshot.schedulers, scheduler) != snapshot.schedulers.end();
  if (!known) {
    Finding finding = make_finding("SCHED060", Severity::kWarning,
                                   "no pod of this cluster was placed by a scheduler named " +
                                       scheduler + ": pods that ask for it may wait for ever");
    finding.confidence = 0.6;
    findings.push_back(std::move(finding));
  }
  for (const Refusal& refusal : snapshot.refusals) {
    if (refusal.is_pod_security) {
      const std::string level = snapshot.pod_security.empty()
                                    ? "a pod security level"
                                    : "the pod security level " + snapshot.pod_security;
      Finding finding = make_finding("SEC050", Severity::kError,
                                     "namespace " + snapshot.k8s_namespace + " enforces " + level +
                                         ", which rejects the pods of " + refusal.object);
      finding.evidence.push_back({.text = refusal.message});
      findings.push_back(std::move(finding));
      continue;
    }
    const bool is_limit = refusal.is_limit_range;
    Finding finding =
        make_finding(is_limit ? "SCHED057" : "SCHED058", Severity::kError,
                     is_limit ? "a LimitRange of namespace " + snapshot.k8s_namespace +
                                    " rejects the pods of " + refusal.object
                              : "the server would refuse " + refusal.object + ", or its pods");
    finding.evidence.push_back({.text = refusal.message});
    findings.push_back(std::move(finding));
  }
}

}  // namespace shanty::check
