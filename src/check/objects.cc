#include "check/objects.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "kube/quantity.h"
#include "kube/rfc3339.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::check {
namespace {

using kube::child;
using kube::items;
using nlohmann::json;

constexpr int64_t kMostSkew = 1'000'000;

std::vector<std::string> texts(const json& list) {
  std::vector<std::string> out;
  for (const json& item : list) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

std::string quantity_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() ? value.dump() : "";
}

bool is_cpu(std::string_view name) { return name == "cpu" || name.ends_with(".cpu"); }

void add(Amounts& sum, const Amounts& more) {
  for (const auto& [name, amount] : more) sum[name] += amount;
}

void raise(Amounts& most, const Amounts& other) {
  for (const auto& [name, amount] : other) most[name] = std::max(most[name], amount);
}

// Requests of a container; a limit stands for a request that is not written.
Amounts container_requests(const json& container) {
  const json& resources = child(container, "resources");
  Amounts asked = read_amounts(child(resources, "limits"));
  for (const auto& [name, amount] : read_amounts(child(resources, "requests"))) {
    asked[name] = amount;
  }
  return asked;
}

std::string condition_problem(const json& object, const char* type) {
  for (const json& condition : items(child(object, "status"), "conditions")) {
    if (json_string(condition, "type") != type || json_string(condition, "status") == "True") {
      continue;
    }
    const std::string reason = json_string(condition, "reason");
    const std::string message = json_string(condition, "message");
    return message.empty() ? reason : reason.empty() ? message : reason + ": " + message;
  }
  return "";
}

// A label selector; empty: selects everything.
std::vector<LabelNeed> needs_of(const json& selector) {
  std::vector<LabelNeed> needs;
  for (const auto& [key, value] : child(selector, "matchLabels").items()) {
    if (value.is_string()) needs.push_back({.key = key, .values = {value.get<std::string>()}});
  }
  for (const json& expression : items(selector, "matchExpressions")) {
    needs.push_back({.key = json_string(expression, "key"),
                     .op = json_string(expression, "operator"),
                     .values = texts(items(expression, "values"))});
  }
  return needs;
}

// A label selector, narrowed to the pod's own values of `match_label_keys`. Nothing: it selects no
// pod.
std::optional<std::vector<LabelNeed>> selector_of(
    const json& term, const std::map<std::string, std::string>& labels) {
  const json* selector = json_object(term, "labelSelector");
  if (selector == nullptr) return std::nullopt;
  std::vector<LabelNeed> needs = needs_of(*selector);
  for (const auto& [list, op] :
       {std::pair("matchLabelKeys", "In"), {"mismatchLabelKeys", "NotIn"}}) {
    for (const std::string& key : texts(items(term, list))) {
      const auto own = labels.find(key);
      if (own != labels.end()) needs.push_back({.key = key, .op = op, .values = {own->second}});
    }
  }
  return needs;
}

}  // namespace

namespace {

// By flavor and resource.
using FlavorUse = std::map<std::pair<std::string, std::string>, int64_t>;

// Of a ClusterQueue or a Cohort.
std::vector<FlavorQuota> read_quotas(const json& spec, const FlavorUse& used) {
  std::vector<FlavorQuota> quotas;
  for (const json& group : items(spec, "resourceGroups")) {
    for (const json& flavor : items(group, "flavors")) {
      for (const json& resource : items(flavor, "resources")) {
        FlavorQuota quota{.flavor = json_string(flavor, "name"),
                          .resource = json_string(resource, "name")};
        const auto amount = [&](const char* field) -> std::optional<int64_t> {
          if (!resource.contains(field)) return std::nullopt;
          const Amounts read = read_amounts({{quota.resource, resource[field]}});
          if (read.empty()) return std::nullopt;
          return std::max<int64_t>(0, read.begin()->second);
        };
        quota.nominal = amount("nominalQuota").value_or(0);
        quota.borrow = amount("borrowingLimit");
        quota.lend = amount("lendingLimit");
        if (const auto found = used.find({quota.flavor, quota.resource}); found != used.end()) {
          quota.used = found->second;
        }
        quotas.push_back(quota);
      }
    }
  }
  return quotas;
}

std::vector<ApartTerm> read_terms(const json& affinity,
                                  const std::map<std::string, std::string>& labels) {
  std::vector<ApartTerm> out;
  for (const json& term : items(affinity, "requiredDuringSchedulingIgnoredDuringExecution")) {
    // Of a selector of namespaces their labels would have to be known; all of them is the safe
    // side.
    out.push_back({.topology_key = json_string(term, "topologyKey"),
                   .selector = selector_of(term, labels),
                   .namespaces = texts(items(term, "namespaces")),
                   .all_namespaces = term.contains("namespaceSelector")});
  }
  return out;
}

// Of one side of `resources`: containers, or the largest init container beside the sidecars.
Amounts containers_together(const json& spec, Amounts (*of_container)(const json& container)) {
  Amounts sum;
  for (const json& container : items(spec, "containers")) add(sum, of_container(container));
  Amounts sidecars;
  Amounts most;
  for (const json& container : items(spec, "initContainers")) {
    Amounts asked = of_container(container);
    add(asked, sidecars);
    raise(most, asked);
    if (json_string(container, "restartPolicy") == "Always") sidecars = asked;
  }
  add(sum, sidecars);
  raise(sum, most);
  return sum;
}

// What people know of the objects above a pod: its labels say whose parts its owner is one of.
std::string topmost_owner(const std::string& owner,
                          const std::map<std::string, std::string>& labels) {
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"jobset.sigs.k8s.io/jobset-name", "JobSet"},
      {"leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"}};
  for (const auto& [label, kind] : kParts) {
    if (const auto found = labels.find(label); found != labels.end()) {
      return fmt::format("{} {}", kind, found->second);
    }
  }
  if (const auto ray = labels.find("ray.io/originated-from-cr-name"); ray != labels.end()) {
    const auto kind = labels.find("ray.io/originated-from-crd");
    if (kind != labels.end()) return kind->second + " " + ray->second;
  }
  const auto hash = labels.find("pod-template-hash");
  constexpr std::string_view kReplicaSet = "ReplicaSet ";
  if (hash != labels.end() && owner.starts_with(kReplicaSet) &&
      owner.ends_with("-" + hash->second)) {
    const size_t end = owner.size() - hash->second.size() - 1;
    return "Deployment " + owner.substr(kReplicaSet.size(), end - kReplicaSet.size());
  }
  return owner;
}

Amounts container_limits(const json& container) {
  return read_amounts(child(child(container, "resources"), "limits"));
}

}  // namespace

NeedSets read_node_terms(const json& selector, const std::vector<LabelNeed>& always) {
  NeedSets out;
  for (const json& term : items(selector, "nodeSelectorTerms")) {
    std::vector<LabelNeed> set = always;
    for (const char* list : {"matchExpressions", "matchFields"}) {
      for (const json& expression : items(term, list)) {
        std::string key = json_string(expression, "key");
        if (list == std::string_view("matchFields")) key.insert(0, ".");
        set.push_back({.key = std::move(key),
                       .op = json_string(expression, "operator"),
                       .values = texts(items(expression, "values"))});
      }
    }
    out.push_back(std::move(set));
  }
  return out;
}

std::vector<ApartTerm> read_apart(const json& pod_spec,
                                  const std::map<std::string, std::string>& labels) {
  return read_terms(child(child(pod_spec, "affinity"), "podAntiAffinity"), labels);
}

std::vector<ApartTerm> read_together(const json& pod_spec,
                                     const std::map<std::string, std::string>& labels) {
  return read_terms(child(child(pod_spec, "affinity"), "podAffinity"), labels);
}

std::vector<SpreadTerm> read_spread(const json& pod_spec,
                                    const std::map<std::string, std::string>& labels) {
  std::vector<SpreadTerm> out;
  for (const json& term : items(pod_spec, "topologySpreadConstraints")) {
    if (json_string(term, "whenUnsatisfiable") != "DoNotSchedule") continue;
    out.push_back({.topology_key = json_string(term, "topologyKey"),
                   .max_skew = std::clamp<int64_t>(json_int64(term, "maxSkew", 1), 1, kMostSkew),
                   .min_domains = static_cast<uint64_t>(
                       std::clamp<int64_t>(json_int64(term, "minDomains"), 0, kMostSkew)),
                   .honors_taints = json_string(term, "nodeTaintsPolicy") == "Honor",
                   .selector = selector_of(term, labels)});
  }
  return out;
}

Amounts read_amounts(const json& amounts) {
  Amounts out;
  if (!amounts.is_object()) return out;
  for (const auto& [name, value] : amounts.items()) {
    const std::string text = quantity_text(value);
    const auto amount =
        is_cpu(name) ? kube::parse_quantity_milli(text) : kube::parse_quantity(text);
    if (amount) out[name] = *amount;
  }
  return out;
}

std::map<std::string, std::string> read_labels(const json& object) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : child(child(object, "metadata"), "labels").items()) {
    if (value.is_string()) out[name] = value.get<std::string>();
  }
  return out;
}

std::string name_of(const json& object) { return json_string(child(object, "metadata"), "name"); }

NodeFacts read_node(const json& node) {
  NodeFacts facts;
  facts.fit.name = name_of(node);
  facts.fit.labels = read_labels(node);
  facts.fit.labels[kNodeNameField] = facts.fit.name;
  const json& spec = child(node, "spec");
  facts.fit.cordoned = json_bool(spec, "unschedulable");
  for (const json& taint : items(spec, "taints")) {
    const std::string key = json_string(taint, "key");
    // The scheduler's own sign of a cordon and of a node that is not ready.
    if (key == "node.kubernetes.io/unschedulable" || key == "node.kubernetes.io/not-ready")
      continue;
    facts.fit.taints.push_back({key, json_string(taint, "value"), json_string(taint, "effect")});
  }
  facts.fit.allocatable = read_amounts(child(child(node, "status"), "allocatable"));
  facts.capacity = read_amounts(child(child(node, "status"), "capacity"));
  facts.not_ready_reason = condition_problem(node, "Ready");
  facts.fit.ready = facts.not_ready_reason.empty();
  return facts;
}

Amounts pod_requests(const json& spec) {
  Amounts sum = containers_together(spec, container_requests);
  // Of the pod as a whole (pod-level resources), which the scheduler takes instead.
  const json& whole = child(spec, "resources");
  for (const auto& [name, amount] : read_amounts(child(whole, "limits"))) sum.emplace(name, amount);
  for (const auto& [name, amount] : read_amounts(child(whole, "requests"))) sum[name] = amount;
  add(sum, read_amounts(child(spec, "overhead")));
  return sum;
}

Amounts pod_limits(const json& spec) {
  Amounts sum = containers_together(spec, container_limits);
  for (const auto& [name, amount] : read_amounts(child(child(spec, "resources"), "limits"))) {
    sum[name] = amount;
  }
  return sum;
}

std::optional<FitPod> read_pod(const json& pod) {
  const json& status = child(pod, "status");
  const json& metadata = child(pod, "metadata");
  const json& spec = child(pod, "spec");
  const std::string phase = json_string(status, "phase");
  if (phase == "Succeeded" || phase == "Failed") return std::nullopt;
  FitPod out{.k8s_namespace = json_string(metadata, "namespace"),
             .name = json_string(metadata, "name"),
             .node = json_string(spec, "nodeName"),
             .requests = pod_requests(spec)};
  out.owner = "Pod " + out.name;
  for (const json& owner : items(metadata, "ownerReferences")) {
    if (!json_bool(owner, "controller")) continue;
    out.owner = json_string(owner, "kind") + " " + json_string(owner, "name");
  }
  out.labels = read_labels(pod);
  out.owner = topmost_owner(out.owner, out.labels);
  out.apart = read_apart(spec, out.labels);
  out.priority = json_int64(spec, "priority");
  const int64_t deadline_s = json_int64(spec, "activeDeadlineSeconds");
  const auto started = kube::parse_rfc3339_s(json_string(status, "startTime"));
  if (deadline_s > 0 && started) out.ends_unix_s = *started + deadline_s;
  return out;
}

ClaimFacts read_claim(const json& claim) {
  const json& spec = child(claim, "spec");
  return {.name = name_of(claim),
          .phase = json_string(child(claim, "status"), "phase"),
          .access_modes = texts(items(spec, "accessModes")),
          .storage_class = json_string(spec, "storageClassName"),
          .terminating = child(claim, "metadata").contains("deletionTimestamp"),
          .volume = json_string(spec, "volumeName")};
}

NeedSets read_volume_nodes(const json& volume) {
  return read_node_terms(child(child(child(volume, "spec"), "nodeAffinity"), "required"), {});
}

QuotaFacts read_quota(const json& quota) {
  const json& spec = child(quota, "spec");
  const json& status = child(quota, "status");
  QuotaFacts facts{.name = name_of(quota),
                   .hard = read_amounts(child(spec, "hard")),
                   .used = read_amounts(child(status, "used"))};
  for (const std::string& name : texts(items(spec, "scopes"))) facts.scopes.push_back({name});
  for (const json& each : items(child(spec, "scopeSelector"), "matchExpressions")) {
    facts.scopes.push_back({json_string(each, "scopeName"), json_string(each, "operator", "Exists"),
                            texts(items(each, "values"))});
  }
  return facts;
}

std::vector<LimitFacts> read_limits(const json& limit_range) {
  std::vector<LimitFacts> out;
  for (const json& limit : items(child(limit_range, "spec"), "limits")) {
    out.push_back({.name = name_of(limit_range),
                   .type = json_string(limit, "type"),
                   .most = read_amounts(child(limit, "max")),
                   .least = read_amounts(child(limit, "min"))});
  }
  return out;
}

LocalQueueFacts read_local_queue(const json& queue) {
  LocalQueueFacts facts{.name = name_of(queue),
                        .cluster_queue = json_string(child(queue, "spec"), "clusterQueue")};
  facts.inactive_why = condition_problem(queue, "Active");
  const std::string policy = json_string(child(queue, "spec"), "stopPolicy", "None");
  if (policy != "None") facts.inactive_why = "its stopPolicy is " + policy;
  facts.active = facts.inactive_why.empty();
  return facts;
}

ClusterQueueFacts read_cluster_queue(const json& queue,
                                     const std::map<std::string, std::string>& namespace_labels) {
  const json& spec = child(queue, "spec");
  ClusterQueueFacts facts{.name = name_of(queue)};
  facts.cohort = json_string(spec, "cohortName", json_string(spec, "cohort"));  // v1beta2, v1beta1
  facts.stopped = json_string(spec, "stopPolicy", "None") != "None";
  facts.inactive_why = condition_problem(queue, "Active");
  facts.active = facts.inactive_why.empty();
  if (const json* selector = json_object(spec, "namespaceSelector")) {
    facts.admits_namespace = meets_any(namespace_labels, {needs_of(*selector)});
  } else {
    facts.admits_namespace = false;
  }
  FlavorUse used;
  for (const json& flavor : items(child(queue, "status"), "flavorsReservation")) {
    for (const json& resource : items(flavor, "resources")) {
      const std::string name = json_string(resource, "name");
      if (!resource.contains("total")) continue;
      const Amounts total = read_amounts({{name, resource["total"]}});
      for (const auto& [key, amount] : total) used[{json_string(flavor, "name"), key}] = amount;
    }
  }
  facts.quotas = read_quotas(spec, used);
  return facts;
}

CohortFacts read_cohort(const json& cohort) {
  const json& spec = child(cohort, "spec");
  return {
      .name = name_of(cohort),
      .parent = json_string(spec, "parentName", json_string(spec, "parent")),  // "parent": v1alpha1
      .quotas = read_quotas(spec, {})};
}

FlavorFacts read_flavor(const json& flavor) {
  FlavorFacts facts{.name = name_of(flavor)};
  for (const auto& [key, value] : child(child(flavor, "spec"), "nodeLabels").items()) {
    if (value.is_string()) facts.node_labels[key] = value.get<std::string>();
  }
  facts.topology = json_string(child(flavor, "spec"), "topologyName");
  return facts;
}

VolcanoQueueFacts read_volcano_queue(const json& queue) {
  return {.name = name_of(queue),
          .state = json_string(child(queue, "status"), "state", "Open"),
          .capability = read_amounts(child(child(queue, "spec"), "capability")),
          .allocated = read_amounts(child(child(queue, "status"), "allocated"))};
}

PriorityFacts read_priority_class(const json& priority_class) {
  return {.name = name_of(priority_class),
          .value = json_int64(priority_class, "value"),
          .is_default = json_bool(priority_class, "globalDefault"),
          .preempts = json_string(priority_class, "preemptionPolicy") != "Never"};
}

std::string amount_text(const std::string& resource, int64_t amount) {
  if (is_cpu(resource)) {
    return amount % 1000 == 0 ? std::to_string(amount / 1000)
                              : fmt::format("{:g}", static_cast<double>(amount) / 1000);
  }
  const bool bytes = resource.find("memory") != std::string::npos ||
                     resource.find("storage") != std::string::npos ||
                     resource.find("hugepages") != std::string::npos;
  if (bytes && amount >= 0) return format_bytes(static_cast<uint64_t>(amount));
  return std::to_string(amount);
}

}  // namespace shanty::check
