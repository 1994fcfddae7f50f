#include "kube/discovery.h"

#include <nlohmann/json.hpp>

#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::kube {
namespace {

using nlohmann::json;

constexpr size_t kMaxKinds = 100'000;

void add_kind(Served& served, ServedKind kind) {
  const bool usable = !kind.kind.empty() && !kind.plural.empty() &&
                      kind.plural.find('/') == std::string::npos && served.kinds.size() < kMaxKinds;
  if (usable) served.kinds.push_back(std::move(kind));
}

void add_aggregated_group(const json& group, Served& served) {
  const json* metadata = json_object(group, "metadata");
  const std::string name = metadata == nullptr ? "" : json_string(*metadata, "name");
  for (const json& version : items(group, "versions")) {
    const std::string version_name = json_string(version, "version");
    if (json_string(version, "freshness") == "Stale") {
      served.gaps.push_back(name + "/" + version_name);
    }
    for (const json& resource : items(version, "resources")) {
      const json* kind = json_object(resource, "responseKind");
      if (kind == nullptr) continue;
      // A subresource answers with kinds of its own group ("scale" of autoscaling): its resource
      // names are not listed here, only below `subresources`.
      add_kind(served, {.group = name,
                        .version = version_name,
                        .kind = json_string(*kind, "kind"),
                        .plural = json_string(resource, "resource"),
                        .namespaced = json_string(resource, "scope") == "Namespaced"});
    }
  }
}

}  // namespace

Result<DiscoveryAnswer> parse_discovery(std::string_view body) {
  const auto parsed = parse_json(body);
  if (!parsed || !parsed->is_object()) return Error{"what it serves is not told in JSON"};
  DiscoveryAnswer answer;
  const std::string kind = json_string(*parsed, "kind");
  if (kind == "APIGroupDiscoveryList") {
    answer.aggregated = true;
    for (const json& group : items(*parsed, "items")) add_aggregated_group(group, answer.served);
  } else if (kind == "APIVersions") {
    for (const json& version : items(*parsed, "versions")) {
      if (version.is_string()) answer.to_ask.push_back("/api/" + version.get<std::string>());
    }
  } else if (kind == "APIGroupList") {
    for (const json& group : items(*parsed, "groups")) {
      const json* preferred = json_object(group, "preferredVersion");
      const std::string first = preferred == nullptr ? "" : json_string(*preferred, "groupVersion");
      if (!first.empty()) answer.to_ask.push_back("/apis/" + first);
      for (const json& version : items(group, "versions")) {
        const std::string name = json_string(version, "groupVersion");
        if (!name.empty() && name != first) answer.to_ask.push_back("/apis/" + name);
      }
    }
  } else {
    return Error{"what it serves is told as \"" + kind + "\", which is no discovery document"};
  }
  return answer;
}

Status add_resource_list(std::string_view body, Served& served) {
  const auto parsed = parse_json(body);
  if (!parsed || json_string(*parsed, "kind") != "APIResourceList") {
    return Error{"its list of resources is none"};
  }
  const std::string group_version = json_string(*parsed, "groupVersion");
  const size_t slash = group_version.find('/');
  const std::string group = slash == std::string::npos ? "" : group_version.substr(0, slash);
  const std::string version =
      slash == std::string::npos ? group_version : group_version.substr(slash + 1);
  for (const json& resource : items(*parsed, "resources")) {
    add_kind(served, {.group = group,
                      .version = version,
                      .kind = json_string(resource, "kind"),
                      .plural = json_string(resource, "name"),
                      .namespaced = json_bool(resource, "namespaced")});
  }
  return {};
}

}  // namespace shanty::kube
