#include "check/own_objects.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "check/objects.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::check {
namespace {

using kube::child;
using kube::items;
using nlohmann::json;

constexpr std::string_view kViolates = "violates PodSecurity";
constexpr std::string_view kNoRight = "cannot create resource";
constexpr std::string_view kForbidden = " is forbidden: ";
// LimitRanges' words: "maximum cpu usage per Container is 2, but limit is 4".
constexpr std::string_view kBounds[] = {" usage per Container is ", " usage per Pod is ",
                                        " limit to request ratio per "};
// Judged by arithmetic, which knows how many pods there will be and what would help.
constexpr std::string_view kJudgedElsewhere[] = {"exceeded quota: ", "no PriorityClass with name "};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(text, part); });
}

std::string title_of(const json& object) {
  return json_string(object, "kind") + " " + name_of(object);
}

bool makes(const std::vector<json>& objects, std::string_view kind, const std::string& name) {
  return std::ranges::any_of(objects, [&](const json& each) {
    return json_string(each, "kind") == kind && name_of(each) == name;
  });
}

// The pods of "... serviceaccount "x" not found" get it with the job.
bool makes_service_account(const std::vector<json>& objects, std::string_view text) {
  constexpr std::string_view kAccount = "serviceaccount \"";
  const size_t at = text.find(kAccount);
  if (at == std::string_view::npos) return false;
  const std::string_view name = text.substr(at + kAccount.size());
  return makes(objects, "ServiceAccount", std::string(name.substr(0, name.find('"'))));
}

// Every pod template in an object, wherever its kind keeps it.
void gather_templates(const json& part, std::vector<json>& templates) {
  if (!part.is_structured()) return;
  if (!items(child(part, "spec"), "containers").empty()) {
    templates.push_back(part);
    return;
  }
  for (const json& each : part) gather_templates(each, templates);
}

// A Job is taken whatever its pods are, and its pods are refused later: so they are tried, too.
void try_pods(kube::Client& client, const json& object, const std::vector<json>& all,
              Snapshot& snapshot) {
  if (json_string(object, "kind") == "Pod") return;
  std::vector<json> templates;
  gather_templates(object, templates);
  for (const json& each : templates) {
    const json pod = {{"apiVersion", "v1"},
                      {"kind", "Pod"},
                      {"metadata",
                       {{"generateName", "check-"},
                        {"namespace", snapshot.k8s_namespace},
                        {"labels", child(child(each, "metadata"), "labels")}}},
                      {"spec", each["spec"]}};
    const auto tried = client.create_object(pod, {.dry_run = true});
    if (tried.ok()) {
      snapshot.pods_tried = true;
      continue;
    }
    if (contains(tried.error().detail, kNoRight)) {
      snapshot.unread.push_back("whether the namespace takes such pods: " + tried.error().message);
      return;
    }
    if (auto refusal = refusal_of_pod(tried.error(), all)) {
      snapshot.pods_tried = true;
      refusal->object = title_of(object);
      snapshot.refusals.push_back(std::move(*refusal));
      return;
    }
  }
}

}  // namespace

void add_own_objects(const std::vector<json>& objects, Snapshot& snapshot) {
  for (const json& object : objects) {
    const std::string kind = json_string(object, "kind");
    const std::string name = name_of(object);
    const std::string its_namespace = json_string(child(object, "metadata"), "namespace");
    const bool is_here = its_namespace.empty() || its_namespace == snapshot.k8s_namespace;
    if (kind == "Namespace" && name == snapshot.k8s_namespace) {
      snapshot.namespace_exists = true;
    } else if (kind == "PriorityClass") {
      snapshot.priority_classes.push_back(read_priority_class(object));
    } else if (kind == "ClusterQueue") {
      snapshot.cluster_queues.push_back(read_cluster_queue(object, snapshot.namespace_labels));
    } else if (kind == "Cohort") {
      snapshot.cohorts.push_back(read_cohort(object));
    } else if (kind == "ResourceFlavor") {
      snapshot.flavors.push_back(read_flavor(object));
    } else if (!is_here) {
      continue;
    } else if (kind == "PersistentVolumeClaim") {
      ClaimFacts claim = read_claim(object);
      claim.is_new = true;
      snapshot.claims.emplace(name, std::move(claim));
    } else if (kind == "Secret" && snapshot.secrets) {
      snapshot.secrets->push_back(name);
    } else if (kind == "LocalQueue") {
      snapshot.local_queues.push_back(read_local_queue(object));
    }
  }
}

std::optional<Refusal> refusal_of_pod(const kube::ApiError& error,
                                      const std::vector<json>& objects) {
  const std::string& text = error.detail;
  if (const size_t at = text.find(kViolates); at != std::string::npos) {
    return Refusal{.message = text.substr(at), .is_pod_security = true};
  }
  const bool by_webhook = contains(text, "admission webhook") || contains(text, "calling webhook");
  // What a template lacks, its controller may fill in: only a refusal as such counts.
  if (error.status != 403 && !by_webhook) return std::nullopt;
  if (contains(text, kNoRight) || contains_any(text, kJudgedElsewhere) ||
      makes_service_account(objects, text)) {
    return std::nullopt;
  }
  const size_t forbidden = text.find(kForbidden);
  return Refusal{
      .message = forbidden == std::string::npos ? text : text.substr(forbidden + kForbidden.size()),
      .is_limit_range = contains_any(text, kBounds)};
}

void try_objects(kube::Client& client, const std::vector<json>& objects, Snapshot& snapshot) {
  if (makes(objects, "Namespace", snapshot.k8s_namespace)) {
    const auto kind = client.kind("", "Namespace");
    const bool is_there = kind.ok() && client.get({*kind, "", snapshot.k8s_namespace}).ok();
    if (!is_there) {
      snapshot.unread.push_back("what the server thinks of the objects: namespace " +
                                snapshot.k8s_namespace + ", which they make, is not there yet");
      return;
    }
  }
  for (const json& object : objects) {
    if (json_object(object, "metadata") == nullptr) continue;
    json placed = object;
    if (json_string(child(object, "metadata"), "namespace").empty()) {
      placed["metadata"]["namespace"] = snapshot.k8s_namespace;
    }
    try_pods(client, placed, objects, snapshot);
    const auto tried = client.create_object(placed, {.dry_run = true});
    const bool is_pod = json_string(object, "kind") == "Pod";
    if (is_pod && tried.ok()) snapshot.pods_tried = true;
    if (tried.ok() || tried.error().reason == "AlreadyExists") continue;
    if (!snapshot.namespace_exists && tried.error().is_not_found()) continue;  // told already
    const auto& error = tried.error();
    Refusal refusal{.message = error.detail.empty() ? error.message : error.detail,
                    .is_pod_security = contains(error.detail, kViolates),
                    .is_limit_range = contains_any(error.detail, kBounds)};
    refusal.object = title_of(object);
    if (is_pod && refusal.is_limit_range) snapshot.pods_tried = true;
    snapshot.refusals.push_back(std::move(refusal));
  }
}

}  // namespace shanty::check
