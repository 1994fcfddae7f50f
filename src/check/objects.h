#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "check/snapshot.h"

namespace shanty::check {

// Objects of the API as plain data. Whatever is missing or of another type is left out; nothing
// here fails.

// Rules of a pod's spec about its neighbours; `labels` are the pod's.
std::vector<ApartTerm> read_apart(const nlohmann::json& pod_spec,
                                  const std::map<std::string, std::string>& labels);
// The same of required affinity: near which pods they have to be.
std::vector<ApartTerm> read_together(const nlohmann::json& pod_spec,
                                     const std::map<std::string, std::string>& labels);
std::vector<SpreadTerm> read_spread(const nlohmann::json& pod_spec,
                                    const std::map<std::string, std::string>& labels);

// The terms of a node selector, each with `always`.
NeedSets read_node_terms(const nlohmann::json& selector, const std::vector<LabelNeed>& always);

Amounts read_amounts(const nlohmann::json& amounts);
NodeFacts read_node(const nlohmann::json& node);
// Nothing for a pod that has ended. `owner_ends`: by owner, from deadlines of jobs.
std::optional<FitPod> read_pod(const nlohmann::json& pod);
// What the scheduler counts for a pod: containers together, or the largest init container where
// that is more, unless the pod as a whole says it; and the overhead.
Amounts pod_requests(const nlohmann::json& pod_spec);
// What a quota counts as its limits.
Amounts pod_limits(const nlohmann::json& pod_spec);
ClaimFacts read_claim(const nlohmann::json& claim);
// From which nodes a PersistentVolume is reached; empty: from all.
NeedSets read_volume_nodes(const nlohmann::json& volume);
QuotaFacts read_quota(const nlohmann::json& quota);
std::vector<LimitFacts> read_limits(const nlohmann::json& limit_range);
LocalQueueFacts read_local_queue(const nlohmann::json& queue);
ClusterQueueFacts read_cluster_queue(const nlohmann::json& queue,
                                     const std::map<std::string, std::string>& namespace_labels);
CohortFacts read_cohort(const nlohmann::json& cohort);
FlavorFacts read_flavor(const nlohmann::json& flavor);
VolcanoQueueFacts read_volcano_queue(const nlohmann::json& queue);
PriorityFacts read_priority_class(const nlohmann::json& priority_class);

std::map<std::string, std::string> read_labels(const nlohmann::json& object);
std::string name_of(const nlohmann::json& object);

// "96", "1.5", "256 GiB", "8": an amount as people read it.
std::string amount_text(const std::string& resource, int64_t amount);

}  // namespace shanty::check
