#include <algorithm>
#include <map>

#include "check/cohorts.h"
#include "check/objects.h"
#include "check/probes/areas.h"

namespace shanty::check {
namespace {

std::vector<std::string> gang_mechanisms(const Snapshot& snapshot) {
  std::vector<std::string> found;
  if (!snapshot.local_queues.empty()) found.emplace_back("Kueue");
  if (snapshot.serves("scheduling.volcano.sh", "PodGroup")) found.emplace_back("Volcano");
  if (snapshot.serves("scheduling.x-k8s.io", "PodGroup")) found.emplace_back("coscheduling");
  if (snapshot.serves("scheduling.k8s.io", "PodGroup")) found.emplace_back("the scheduler's own");
  return found;
}

const FlavorFacts* find_flavor(const ProbeInput& in, const std::string& name) {
  const auto found = std::ranges::find(in.snapshot.flavors, name, &FlavorFacts::name);
  return found == in.snapshot.flavors.end() ? nullptr : &*found;
}

// Whether the labels that the job asks of nodes, as far as a flavor has them, are the flavor's.
bool takes_job(const ProbeInput& in, const std::string& flavor) {
  const FlavorFacts* facts = find_flavor(in, flavor);
  if (facts == nullptr) return true;
  std::vector<std::vector<LabelNeed>> sets = in.workload.request.needs;
  for (std::vector<LabelNeed>& set : sets) {
    std::erase_if(set, [&](const LabelNeed& n) { return !facts->node_labels.contains(n.key); });
  }
  return meets_any(facts->node_labels, sets);
}

// Kueue takes a job that asks for topology by flavors of a Topology only.
void judge_topology(const ProbeInput& in, const ClusterQueueFacts& queue,
                    std::vector<Finding>& findings) {
  if (!in.workload.asks_topology || queue.quotas.empty() || in.snapshot.flavors.empty()) return;
  const bool any = std::ranges::any_of(queue.quotas, [&](const FlavorQuota& quota) {
    const FlavorFacts* facts = find_flavor(in, quota.flavor);
    return facts == nullptr || !facts->topology.empty();
  });
  if (any) return;
  findings.push_back(
      make_finding("GANG053", Severity::kError,
                   "the pods ask Kueue for topology, and no flavor of ClusterQueue " + queue.name +
                       " names a Topology (topologyName): the job is never admitted"));
}

void judge_quota(const ProbeInput& in, const ClusterQueueFacts& queue,
                 std::vector<Finding>& findings) {
  for (const auto& [resource, wanted] : in.workload.total()) {
    if (wanted <= 0) continue;
    QuotaShare best;
    std::string flavor;
    for (const FlavorQuota& quota : queue.quotas) {
      if (quota.resource != resource || !takes_job(in, quota.flavor)) continue;
      const QuotaShare share = share_of(queue, quota, in.snapshot);
      if (flavor.empty() || share.free > best.free) {
        best = share;
        flavor = quota.flavor;
      }
    }
    const std::string asks = "the job asks for " + amount_text(resource, wanted);
    if (flavor.empty()) {
      findings.push_back(make_finding("GANG053", Severity::kError,
                                      "ClusterQueue " + queue.name + " has no quota for " +
                                          resource + " on such nodes: " + asks +
                                          ", so it is never admitted"));
    } else if (wanted > best.most) {
      findings.push_back(make_finding(
          "GANG053", Severity::kError,
          "ClusterQueue " + queue.name + " has at most " + amount_text(resource, best.most) + " " +
              resource + " (flavor " + flavor + "): " + asks + ", so it is never admitted"));
    } else if (wanted > best.free) {
      findings.push_back(
          make_finding("GANG054", Severity::kWarning,
                       "ClusterQueue " + queue.name + " has " + amount_text(resource, best.free) +
                           " " + resource + " of " + amount_text(resource, best.most) +
                           " free (flavor " + flavor + "): " + asks + " and has to wait"));
    }
  }
}

void judge_kueue(const ProbeInput& in, std::vector<Finding>& findings) {
  const std::string& name = in.workload.kueue_queue;
  const auto local = std::ranges::find(in.snapshot.local_queues, name, &LocalQueueFacts::name);
  if (local == in.snapshot.local_queues.end()) {
    std::vector<std::string> names;
    for (const LocalQueueFacts& each : in.snapshot.local_queues) names.push_back(each.name);
    findings.push_back(make_finding("GANG051", Severity::kError,
                                    "namespace " + in.snapshot.k8s_namespace +
                                        " has no LocalQueue " + name +
                                        (names.empty() ? "" : "; it has " + joined(names))));
  } else {
    const auto queue = std::ranges::find(in.snapshot.cluster_queues, local->cluster_queue,
                                         &ClusterQueueFacts::name);
    if (queue == in.snapshot.cluster_queues.end()) {
      findings.push_back(make_finding("GANG051", Severity::kError,
                                      "LocalQueue " + name + " leads to ClusterQueue " +
                                          local->cluster_queue + ", which is not there"));
    } else if (queue->stopped || !queue->active || !local->active) {
      Finding finding =
          make_finding("GANG052", Severity::kError, "queue " + name + " admits nothing now");
      for (const std::string& why : {local->inactive_why, queue->inactive_why}) {
        if (!why.empty()) finding.evidence.push_back({.text = why});
      }
      if (queue->stopped)
        finding.evidence.push_back({.text = "ClusterQueue " + queue->name + " is stopped"});
      findings.push_back(std::move(finding));
    } else if (const auto cycle = cohort_cycle(queue->cohort, in.snapshot); !cycle.empty()) {
      findings.push_back(make_finding("GANG052", Severity::kError,
                                      "queue " + name + " admits nothing now: the Cohorts " +
                                          joined(cycle) +
                                          " are each other's parents (parentName)"));
    } else if (!queue->admits_namespace) {
      findings.push_back(make_finding("GANG052", Severity::kError,
                                      "ClusterQueue " + queue->name +
                                          " does not admit jobs of namespace " +
                                          in.snapshot.k8s_namespace + " (namespaceSelector)"));
    } else {
      judge_topology(in, *queue, findings);
      judge_quota(in, *queue, findings);
    }
  }
}

void judge_volcano(const ProbeInput& in, std::vector<Finding>& findings) {
  const std::string& name = in.workload.volcano_queue;
  const auto queue = std::ranges::find(in.snapshot.volcano_queues, name, &VolcanoQueueFacts::name);
  if (queue == in.snapshot.volcano_queues.end()) {
    std::vector<std::string> names;
    for (const VolcanoQueueFacts& each : in.snapshot.volcano_queues) names.push_back(each.name);
    findings.push_back(make_finding(
        "GANG055", Severity::kError,
        "Volcano has no queue " + name + (names.empty() ? "" : "; it has " + joined(names))));
    return;
  }
  if (queue->state != "Open" && !queue->state.empty()) {
    findings.push_back(make_finding("GANG055", Severity::kError,
                                    "Volcano's queue " + name + " is " + queue->state));
  }
  for (const auto& [resource, most] : queue->capability) {
    const Amounts total = in.workload.total();
    const auto wanted = total.find(resource);
    if (wanted == total.end() || wanted->second <= 0) continue;
    const auto held = queue->allocated.find(resource);
    const int64_t used = held == queue->allocated.end() ? 0 : held->second;
    if (wanted->second + used <= most) continue;
    if (wanted->second <= most) {
      findings.push_back(make_finding(
          "GANG055", Severity::kWarning,
          "Volcano's queue " + name + " may hold at most " + amount_text(resource, most) + " " +
              resource + " and holds " + amount_text(resource, used) + ": the job asks for " +
              amount_text(resource, wanted->second) + " and has to wait"));
      continue;
    }
    findings.push_back(make_finding(
        "GANG055", Severity::kError,
        "Volcano's queue " + name + " may hold at most " + amount_text(resource, most) + " " +
            resource + ", the job asks for " + amount_text(resource, wanted->second)));
  }
}

}  // namespace

// GANG050: nobody starts pods together. GANG051: no such queue. GANG052: it admits nothing.
// GANG053: quota too small for ever. GANG054: quota in use. GANG055: Volcano's queue.
void probe_gang(const ProbeInput& in, std::vector<Finding>& findings) {
  const bool kueue = in.snapshot.serves("kueue.x-k8s.io", "LocalQueue");
  if (!in.workload.kueue_queue.empty() && kueue) judge_kueue(in, findings);
  if (!in.workload.kueue_queue.empty() && !kueue &&
      !in.snapshot.serves("scheduling.volcano.sh", "Queue")) {
    findings.push_back(make_finding("GANG051", Severity::kError,
                                    "the job names the queue " + in.workload.kueue_queue +
                                        ", but neither Kueue nor Volcano is installed"));
  }
  if (!in.workload.volcano_queue.empty() && in.snapshot.serves("scheduling.volcano.sh", "Queue")) {
    judge_volcano(in, findings);
  }
  if (in.workload.pods() < 2) return;
  const std::vector<std::string> mechanisms = gang_mechanisms(in.snapshot);
  Finding finding;
  if (mechanisms.empty()) {
    finding = make_finding(
        "GANG050", Severity::kWarning,
        "nothing in this cluster starts all pods of a job together: two jobs that each hold a part "
        "can wait for each other for ever");
  } else if (!in.workload.gang) {
    finding = make_finding("GANG050", Severity::kNote,
                           "the job's pods are not asked to start together, though " +
                               joined(mechanisms) + " could see to it");
  } else {
    return;
  }
  if (kueue && in.snapshot.local_queues.empty()) {
    finding.evidence.push_back(
        {.text = "Kueue is installed, but namespace " + in.snapshot.k8s_namespace +
                 " has no LocalQueue that leads to one of its ClusterQueues"});
  }
  findings.push_back(std::move(finding));
}

}  // namespace shanty::check
