#include "follow/find.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "follow/labels.h"

namespace shanty::follow {
namespace {

using kube::ApiResult;
using kube::Client;
using kube::ObjectRef;
using nlohmann::json;
using Outcome = WorkloadState::Outcome;

bool is_running(const PodState& pod) {
  const ContainerState* trainer = pod.trainer();
  return !pod.has_ended() && trainer != nullptr &&
         trainer->phase == ContainerState::Phase::kRunning;
}

// Objects that an operator has made of another one are that one's matter.
bool has_owner(const json& object) {
  const json::json_pointer owners("/metadata/ownerReferences");
  return object.contains(owners) && !object[owners].empty();
}

ApiResult<std::string> list(Client& client, const ServedKind& kind, const std::string& selector,
                            const std::function<void(const json&)>& each,
                            const std::function<void()>& restart = {}) {
  return client.list(kind, client.access().k8s_namespace, {.label_selector = selector},
                     {.each = [&](const json& item) { each(item); }, .restart = restart});
}

std::vector<QueueEntry> queue_entries(Client& client) {
  std::vector<QueueEntry> entries;
  const auto kind = client.kind("kueue.x-k8s.io", "Workload");
  if (!kind.ok()) return entries;
  // Without the right to see them there is no place to tell.
  const auto take = [&](const json& item) {
    if (auto entry = read_queue_entry(item)) entries.push_back(std::move(*entry));
  };
  static_cast<void>(list(client, *kind, "", take, [&] { entries.clear(); }));
  return entries;
}

}  // namespace

std::string FoundJob::state() const {
  if (workload) {
    if (workload->is_leaving) return "leaving";
    if (workload->outcome == Outcome::kSucceeded) return "succeeded";
    if (workload->outcome == Outcome::kFailed) return "failed";
    if (workload->is_suspended) return workload->queue.empty() ? "stopped" : "queued";
  }
  if (!workload && pods.empty()) return "stopped";  // bare pods
  const auto all = [&](auto test) { return !pods.empty() && std::ranges::all_of(pods, test); };
  if (all([](const PodState& p) { return p.phase == "Succeeded"; })) return "succeeded";
  if (all([](const PodState& p) { return p.has_ended(); })) return "failed";
  if (all([](const PodState& p) { return p.is_leaving; })) return "leaving";
  if (running() == nodes() && !pods.empty()) return "running";
  const bool placed = std::ranges::any_of(pods, [](const PodState& p) { return !p.node.empty(); });
  return placed ? "starting" : "pending";
}

size_t FoundJob::running() const {
  return static_cast<size_t>(std::ranges::count_if(
      pods, [](const PodState& pod) { return is_running(pod) && !pod.is_helper; }));
}

size_t FoundJob::nodes() const {
  return static_cast<size_t>(std::ranges::count(pods, false, &PodState::is_helper));
}

int64_t FoundJob::created_unix_s() const {
  if (workload) return workload->created_unix_s;
  return pods.empty() ? 0 : pods.front().created_unix_s;
}

ApiResult<std::vector<FoundJob>> find_jobs(Client& client, const std::string& job) {
  const std::string selector = job.empty() ? selector_of_all_jobs() : selector_of_job(job);
  std::map<std::string, FoundJob> jobs;
  const auto entry = [&](const std::string& name) -> FoundJob& {
    FoundJob& found = jobs[name];
    found.name = name;
    found.k8s_namespace = client.access().k8s_namespace;
    return found;
  };
  const std::vector<ServedKind> served = TRY(client.kinds());
  bool queues = false;
  for (const WorkloadKind& each : workload_kinds()) {
    const auto kind = std::ranges::find_if(
        served, [&](const ServedKind& k) { return k.group == each.group && k.kind == each.kind; });
    if (kind == served.end()) continue;
    const auto listed = list(client, *kind, selector, [&](json item) {
      // The items of a list do not always say what they are.
      item["apiVersion"] = kind->group + "/" + kind->version;
      item["kind"] = kind->kind;
      auto state = read_workload(item);
      if (!state || state->job.empty() || has_owner(item)) return;
      queues = queues || !state->queue.empty();
      entry(state->job).workload = std::move(*state);
    });
    if (!listed.ok() && !listed.error().is_forbidden() && !listed.error().is_not_found()) {
      return listed.error();
    }
  }
  const ServedKind pods = TRY(client.kind("", "Pod"));
  const auto take_pod = [&](const json& item) {
    auto pod = read_pod(item);
    if (pod && !pod->job.empty()) entry(pod->job).pods.push_back(std::move(*pod));
  };
  const auto forget_pods = [&] {
    for (auto& [name, found] : jobs) found.pods.clear();
  };
  TRY(list(client, pods, selector, take_pod, forget_pods));
  const std::vector<QueueEntry> entries =
      queues ? queue_entries(client) : std::vector<QueueEntry>();
  std::vector<FoundJob> out;
  for (auto& [name, found] : jobs) {
    std::ranges::sort(found.pods, {},
                      [](const PodState& p) { return std::pair(p.node_rank, p.name); });
    if (found.workload) found.place = find_place(entries, found.workload->uid);
    out.push_back(std::move(found));
  }
  std::ranges::stable_sort(out, std::greater<>(), &FoundJob::created_unix_s);
  return out;
}

ApiResult<FoundJob> find_job(Client& client, const std::string& name) {
  std::vector<FoundJob> jobs = TRY(find_jobs(client, name));
  if (!jobs.empty()) return std::move(jobs.front());
  std::vector<std::string> names;
  for (const FoundJob& each : TRY(find_jobs(client))) names.push_back(each.name);
  kube::ApiError error;
  error.status = 404;
  error.message = fmt::format("there is no job \"{}\" in namespace {} of {}: ", name,
                              client.access().k8s_namespace, client.access().server.host) +
                  (names.empty() ? "there are none; look in another one with --namespace"
                                 : fmt::format("there are {}", fmt::join(names, ", ")));
  return error;
}

ApiResult<ObjectRef> reference(Client& client, const std::string& group, const std::string& kind,
                               const std::string& name) {
  ObjectRef ref{.kind = TRY(client.kind(group, kind)), .k8s_namespace = "", .name = name};
  if (ref.kind.namespaced) ref.k8s_namespace = client.access().k8s_namespace;
  return ref;
}

}  // namespace shanty::follow
