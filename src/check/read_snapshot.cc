#include "check/read_snapshot.h"

#include <algorithm>
#include <functional>
#include <map>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "check/objects.h"
#include "check/trainer.h"
#include "kube/rfc3339.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::check {
namespace {

using kube::ApiResult;
using kube::ApiStatus;
using kube::child;
using kube::items;
using nlohmann::json;

// Reads parts of the cluster into parts of the snapshot that nobody else writes.
class Reader {
 public:
  Reader(kube::Client& client, Snapshot& snapshot) : client_(client), snapshot_(snapshot) {}

  // Lists one kind; `reset` forgets what came of it so far.
  template <typename Take, typename Reset>
  ApiStatus list(const std::string& group, const std::string& kind, const std::string& in,
                 Take take, Reset reset) {
    const ServedKind served = TRY(client_.kind(group, kind));
    const auto version = client_.list(served, in, {}, {.each = take, .restart = reset});
    if (!version.ok()) return version.error();
    return {};
  }

  template <typename Facts, typename Read>
  ApiStatus list_into(const std::string& group, const std::string& kind, const std::string& in,
                      std::vector<Facts>& into, Read read) {
    return list(
        group, kind, in, [&](const json& item) { into.push_back(read(item)); },
        [&] { into.clear(); });
  }

  // What is not served is not there; what may not be read is told.
  void note(const ApiStatus& status) {
    if (!status.ok() && !status.error().is_not_found()) {
      unread_.push_back(status.error().message);
    }
  }
  const std::vector<std::string>& unread() const { return unread_; }

  void read_pods() {
    std::vector<std::string> schedulers;
    const auto take = [&](const json& item) {
      auto pod = read_pod(item);
      if (!pod) return;
      if (!pod->node.empty()) {
        schedulers.push_back(json_string(child(item, "spec"), "schedulerName"));
      }
      snapshot_.pods.push_back(std::move(*pod));
    };
    const auto reset = [&] { snapshot_.pods.clear(); };
    ApiStatus read = list("", "Pod", "", take, reset);
    if (!read.ok() && read.error().is_forbidden()) {
      snapshot_.sees_all_pods = false;
      unread_.push_back(read.error().message);
      read = list("", "Pod", snapshot_.k8s_namespace, take, reset);
    }
    note(read);
    std::ranges::sort(schedulers);
    const auto repeats = std::ranges::unique(schedulers);
    schedulers.erase(repeats.begin(), repeats.end());
    snapshot_.schedulers = std::move(schedulers);
  }

  // Deadlines that stand in the objects that own pods.
  void read_deadlines(std::map<std::string, int64_t>& ends) {
    const auto take = [&](const char* kind, const char* policy) {
      return [&ends, kind, policy](const json& item) {
        const json& spec = child(item, "spec");
        const json& holder = *policy == '\0' ? spec : child(spec, policy);
        const int64_t deadline_s = json_int64(holder, "activeDeadlineSeconds");
        const auto started = kube::parse_rfc3339_s(json_string(child(item, "status"), "startTime"));
        if (deadline_s <= 0 || !started) return;
        ends[json_string(child(item, "metadata"), "namespace") + "/" + kind + " " + name_of(item)] =
            *started + deadline_s;
      };
    };
    const auto reset = [] {};
    discard_status(list("batch", "Job", "", take("Job", ""), reset));
    discard_status(list("kubeflow.org", "PyTorchJob", "", take("PyTorchJob", "runPolicy"), reset));
  }

  // Its labels.
  std::map<std::string, std::string> read_namespace() {
    std::map<std::string, std::string> labels;
    const auto served = client_.kind("", "Namespace");
    if (!served.ok()) return labels;
    const auto found = client_.get({*served, "", snapshot_.k8s_namespace});
    if (found.ok()) snapshot_.namespace_labels = labels = read_labels(*found);
    if (!found.ok() && found.error().is_not_found()) snapshot_.namespace_exists = false;
    if (!found.ok()) note(found.error());
    const auto level = labels.find("pod-security.kubernetes.io/enforce");
    if (level != labels.end()) snapshot_.pod_security = level->second;
    return labels;
  }

  // Their names: what they hold does not even come here.
  ApiStatus list_secrets(std::vector<std::string>& names) {
    const ServedKind served = TRY(client_.kind("", "Secret"));
    TRY(client_.list(served, snapshot_.k8s_namespace, {.metadata_only = true},
                     {.each = [&](const json& item) { names.push_back(name_of(item)); },
                      .restart = [&] { names.clear(); }}));
    return {};
  }

  void read_secrets() {
    std::vector<std::string> names;
    const ApiStatus read = list_secrets(names);
    if (read.ok()) snapshot_.secrets = std::move(names);
    note(read);
  }

  void read_storage() {
    const auto reset = [&] { snapshot_.claims.clear(); };
    note(list(
        "", "PersistentVolumeClaim", snapshot_.k8s_namespace,
        [&](const json& item) { snapshot_.claims[name_of(item)] = read_claim(item); }, reset));
    std::map<std::string, NeedSets> nodes_of;  // by volume
    note(list(
        "", "PersistentVolume", "",
        [&](const json& item) {
          NeedSets nodes = read_volume_nodes(item);
          if (!nodes.empty()) nodes_of[name_of(item)] = std::move(nodes);
        },
        [&] { nodes_of.clear(); }));
    for (auto& [name, claim] : snapshot_.claims) {
      const auto found = nodes_of.find(claim.volume);
      if (found != nodes_of.end()) claim.nodes = found->second;
    }
    note(list(
        "storage.k8s.io", "StorageClass", "",
        [&](const json& item) {
          snapshot_.late_binding[name_of(item)] =
              json_string(item, "volumeBindingMode") == "WaitForFirstConsumer";
        },
        [&] { snapshot_.late_binding.clear(); }));
  }

  void read_bounds() {
    const std::string& here = snapshot_.k8s_namespace;
    note(list_into("", "ResourceQuota", here, snapshot_.quotas, read_quota));
    note(list(
        "", "LimitRange", here,
        [&](const json& item) {
          for (LimitFacts& limit : read_limits(item)) snapshot_.limits.push_back(std::move(limit));
        },
        [&] { snapshot_.limits.clear(); }));
    note(list_into("scheduling.k8s.io", "PriorityClass", "", snapshot_.priority_classes,
                   read_priority_class));
  }

  void read_device_classes() {
    const auto take = [&](const json& item) {
      const std::string name = json_string(child(item, "spec"), "extendedResourceName");
      if (!name.empty()) snapshot_.device_resources.push_back(name);
      snapshot_.device_resources.push_back("deviceclass.resource.kubernetes.io/" + name_of(item));
    };
    note(list("resource.k8s.io", "DeviceClass", "", take,
              [&] { snapshot_.device_resources.clear(); }));
  }

  void read_queues() {
    const std::map<std::string, std::string> namespace_labels = read_namespace();
    const std::string& here = snapshot_.k8s_namespace;
    const std::string kueue = "kueue.x-k8s.io";
    note(list_into(kueue, "LocalQueue", here, snapshot_.local_queues, read_local_queue));
    note(list_into(kueue, "ClusterQueue", "", snapshot_.cluster_queues,
                   [&](const json& item) { return read_cluster_queue(item, namespace_labels); }));
    note(list_into(kueue, "Cohort", "", snapshot_.cohorts, read_cohort));
    note(list_into(kueue, "ResourceFlavor", "", snapshot_.flavors, read_flavor));
    note(list_into("scheduling.volcano.sh", "Queue", "", snapshot_.volcano_queues,
                   read_volcano_queue));
  }

 private:
  static void discard_status(const ApiStatus& /*status*/) {}

  kube::Client& client_;
  Snapshot& snapshot_;
  std::vector<std::string> unread_;
};

}  // namespace

bool Snapshot::serves(const std::string& group, const std::string& kind) const {
  return std::ranges::any_of(
      kinds, [&](const ServedKind& each) { return each.group == group && each.kind == kind; });
}

bool Snapshot::gives_by_claims(const std::string& resource) const {
  return std::ranges::find(device_resources, resource) != device_resources.end() &&
         std::ranges::none_of(nodes, [&](const NodeFacts& node) {
           const auto found = node.fit.allocatable.find(resource);
           return found != node.fit.allocatable.end() && found->second > 0;
         });
}

ApiResult<Snapshot> read_snapshot(kube::Client& client, const std::string& k8s_namespace) {
  Snapshot snapshot{.context = client.access().context, .k8s_namespace = k8s_namespace};
  snapshot.now_unix_s = system_clock().unix_time_ns() / 1'000'000'000;
  snapshot.kinds = TRY(client.kinds());
  for (const std::string& gap : client.gaps()) {
    snapshot.unread.push_back("the server of " + gap + " does not answer");
  }
  // All at once: most of the time goes by in the server and on the way.
  ApiStatus nodes;
  std::map<std::string, int64_t> ends;
  const std::vector<std::function<void(Reader&)>> parts = {
      [&](Reader& r) { nodes = r.list_into("", "Node", "", snapshot.nodes, read_node); },
      [](Reader& r) { r.read_pods(); },
      [&](Reader& r) { r.read_deadlines(ends); },
      [](Reader& r) { r.read_secrets(); },
      [](Reader& r) { r.read_storage(); },
      [](Reader& r) { r.read_bounds(); },
      [](Reader& r) { r.read_device_classes(); },
      [](Reader& r) { r.read_queues(); }};
  std::vector<Reader> readers(parts.size(), Reader(client, snapshot));
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < parts.size(); ++i) {
      threads.emplace_back([&, i] { parts[i](readers[i]); });
    }
  }
  if (!nodes.ok()) return nodes.error();
  for (const Reader& reader : readers) {
    snapshot.unread.insert(snapshot.unread.end(), reader.unread().begin(), reader.unread().end());
  }
  for (FitPod& pod : snapshot.pods) {
    const auto found = ends.find(pod.k8s_namespace + "/" + pod.owner);
    if (found != ends.end()) pod.ends_unix_s = found->second;
  }
  return snapshot;
}

std::vector<json> read_runtimes(kube::Client& client, const std::vector<json>& objects,
                                const std::string& k8s_namespace,
                                std::vector<std::string>& problems) {
  std::vector<json> out;
  for (const RuntimeName& each : missing_runtimes(objects)) {
    const auto problem = [&](const kube::ApiError& error) {
      problems.push_back(each.kind + " " + each.name +
                         ", in which stands what the pods of the TrainJob are: " + error.message);
    };
    const auto kind = client.kind("trainer.kubeflow.org", each.kind);
    if (!kind.ok()) {
      problem(kind.error());
      continue;
    }
    auto found = client.get({*kind, kind->namespaced ? k8s_namespace : "", each.name});
    found.ok() ? out.push_back(std::move(*found)) : problem(found.error());
  }
  return out;
}

}  // namespace shanty::check
