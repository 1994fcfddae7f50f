#include "follow/start.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "follow/find.h"
#include "follow/labels.h"
#include "follow/workload.h"
#include "text/json_fields.h"

namespace shanty::follow {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::ApiStatus;
using kube::Client;
using nlohmann::json;

std::string kind_of(const json& object) { return json_string(object, "kind"); }

std::string group_of(const json& object) {
  const std::string api_version = json_string(object, "apiVersion");
  const size_t slash = api_version.find('/');
  return slash == std::string::npos ? "" : api_version.substr(0, slash);
}

std::string meta(const json& object, const char* name) {
  const json* metadata = json_object(object, "metadata");
  return metadata == nullptr ? "" : json_string(*metadata, name);
}

std::string job_of(const json& object) {
  const json* metadata = json_object(object, "metadata");
  const json* labels = metadata == nullptr ? nullptr : json_object(*metadata, "labels");
  return labels == nullptr ? "" : json_string(*labels, kJobLabel);
}

std::string title(const json& object) { return kind_of(object) + " " + meta(object, "name"); }

bool is_workload(const json& object) {
  return find_workload_kind(group_of(object), kind_of(object)) != nullptr;
}

// What has to outlive the job.
bool is_kept(const json& object) { return kind_of(object) == "PersistentVolumeClaim"; }

ApiError error_of(std::string message) {
  ApiError error;
  error.message = std::move(message);
  return error;
}

ApiStatus refuse_if_there(Client& client, const std::string& job) {
  const auto found = find_job_or_rest(client, job);
  if (!found.ok()) return found.error().is_not_found() ? ApiStatus() : ApiStatus(found.error());
  return error_of(fmt::format(
      "job {} is there already in namespace {} ({}): remove it with shanty rm, or give this one "
      "another name",
      job, found->k8s_namespace, found->state()));
}

json owner_reference(const json& owner) {
  return {{"apiVersion", json_string(owner, "apiVersion")},
          {"kind", kind_of(owner)},
          {"name", meta(owner, "name")},
          {"uid", meta(owner, "uid")}};
}

// Best effort: without it `shanty rm` has to name each object.
void hand_over(Client& client, const std::vector<json>& made, const json& owner) {
  const json patch = {{"metadata", {{"ownerReferences", json::array({owner_reference(owner)})}}}};
  for (const json& object : made) {
    if (is_kept(object) || meta(object, "uid") == meta(owner, "uid") || is_workload(object)) {
      continue;
    }
    const auto ref = reference(client, group_of(object), kind_of(object), meta(object, "name"));
    if (ref.ok()) static_cast<void>(client.merge_patch(*ref, patch));
  }
}

const json* find_owner(const std::vector<json>& made) {
  auto found = std::ranges::find_if(made, is_workload);
  if (found == made.end()) found = std::ranges::find(made, "ConfigMap", kind_of);
  return found == made.end() ? nullptr : &*found;
}

void take_back(Client& client, const std::vector<json>& made, const Say& say) {
  for (auto object = made.rbegin(); object != made.rend(); ++object) {
    if (is_kept(*object)) continue;
    const auto ref = reference(client, group_of(*object), kind_of(*object), meta(*object, "name"));
    const ApiStatus removed = ref.ok() ? client.remove(*ref) : ApiStatus(ref.error());
    if (!removed.ok()) say(title(*object) + " stays behind: " + removed.error().message);
  }
}

}  // namespace

ApiResult<StartedJob> start_job(Client& client, const std::vector<json>& objects, bool dry_run,
                                const Say& say) {
  if (objects.empty()) return error_of("there is nothing to apply");
  const auto main = std::ranges::find_if(objects, is_workload);
  const StartedJob job{.name = job_of(objects.front()),
                       .kind = main == objects.end() ? "Pod" : kind_of(*main)};
  if (job.name.empty()) return error_of("the rendered objects do not name their job");
  if (!dry_run) TRY_STATUS(refuse_if_there(client, job.name));
  std::vector<json> made;
  for (const json& object : objects) {
    auto stored = client.apply(object, {.dry_run = dry_run});
    if (!stored.ok()) {
      if (!dry_run && !made.empty()) {
        say("removing again what was made");
        take_back(client, made, say);
      }
      return stored.error();
    }
    say(title(object) + (dry_run ? " would be accepted" : " applied"));
    made.push_back(std::move(*stored));
  }
  const json* owner = dry_run ? nullptr : find_owner(made);
  if (owner != nullptr) hand_over(client, made, *owner);
  return job;
}

}  // namespace shanty::follow
