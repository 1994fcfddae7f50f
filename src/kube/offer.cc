#include "kube/offer.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <nlohmann/json.hpp>

#include "kube/quantity.h"
#include "kube/json_child.h"
#include "text/json_fields.h"

namespace shanty::kube {
namespace {

using nlohmann::json;

constexpr const char* kProduct = "nvidia.com/gpu.product";
constexpr const char* kGpuMemory = "nvidia.com/gpu.memory";
// Keys of labels that place a node, beside Kubernetes' own: the word in their last part.
constexpr std::string_view kPlaceWords[] = {"region", "zone",   "block", "rack",
                                            "leaf",   "switch", "spine", "clique"};

std::string name_of(const json& object) { return json_string(child(object, "metadata"), "name"); }

bool is_ordinary(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == "pods" ||
         resource == "ephemeral-storage" || resource.starts_with("attachable-volumes-");
}

bool places_a_node(std::string_view key) {
  if (key.starts_with("failure-domain.beta.kubernetes.io/")) return false;  // the old name of zones
  const std::string_view last = key.substr(key.rfind('/') + 1);
  return std::ranges::any_of(kPlaceWords, [&](std::string_view word) {
    return last.find(word) != std::string_view::npos;
  });
}

std::map<std::string, uint64_t> allocatable_of(const json& node) {
  std::map<std::string, uint64_t> out;
  for (const auto& [name, value] : child(child(node, "status"), "allocatable").items()) {
    if (is_ordinary(name) || !value.is_string()) continue;
    const auto amount = parse_quantity(value.get<std::string>());
    if (amount && *amount > 0) out[name] = static_cast<uint64_t>(*amount);
  }
  return out;
}

bool is_gpu(std::string_view resource) {
  return resource.find("/gpu") != std::string_view::npos ||
         resource.find("/mig-") != std::string_view::npos;
}

void add_taints(const json& node, bool has_gpus, std::vector<TaintOffer>& taints) {
  for (const json& taint : items(child(node, "spec"), "taints")) {
    const TaintOffer seen{.key = json_string(taint, "key"),
                          .value = json_string(taint, "value"),
                          .effect = json_string(taint, "effect")};
    if (seen.effect != "NoSchedule" && seen.effect != "NoExecute") continue;
    auto known = std::ranges::find_if(taints, [&](const TaintOffer& each) {
      return each.key == seen.key && each.value == seen.value && each.effect == seen.effect;
    });
    if (known == taints.end()) known = taints.insert(taints.end(), seen);
    ++known->nodes;
    if (has_gpus) ++known->gpu_nodes;
  }
}

void add_model(const json& labels, uint64_t gpus, std::vector<GpuModelOffer>& models) {
  const std::string product = json_string(labels, kProduct);
  if (product.empty()) return;
  auto known = std::ranges::find(models, product, &GpuModelOffer::product);
  if (known == models.end()) known = models.insert(models.end(), {.product = product});
  ++known->nodes;
  known->gpus_per_node = std::max(known->gpus_per_node, gpus);
  const auto memory = parse_quantity(json_string(labels, kGpuMemory));
  if (memory && *memory > 0) known->memory_mib = static_cast<uint64_t>(*memory);
}

// Gathers by listing kinds; what is not served is not there, what is forbidden is told.
class Discovery {
 public:
  Discovery(Client& client, DiscoveredOffer& out) : client_(client), out_(out) {}

  std::vector<json> list(const std::string& group, const std::string& kind) {
    return list_in("", group, kind).value_or(std::vector<json>());
  }

  // Nothing: not served, or not to be seen.
  std::optional<std::vector<json>> list_in(const std::string& k8s_namespace,
                                           const std::string& group, const std::string& kind) {
    std::vector<json> found;
    const auto served = client_.kind(group, kind);
    if (!served.ok()) return std::nullopt;
    const auto listed = client_.list(*served, k8s_namespace, {},
                                     {.each = [&](json item) { found.push_back(std::move(item)); },
                                      .restart = [&] { found.clear(); }});
    if (!listed.ok()) {
      out_.unread.push_back(listed.error().message);
      return std::nullopt;
    }
    return found;
  }

  void read_schedulers() {
    KubernetesOffer& offer = out_.offer;
    std::set<std::string> names = {"default-scheduler"};
    for (const json& pod : list("", "Pod")) {
      const std::string name = json_string(child(pod, "spec"), "schedulerName");
      if (!name.empty() && !json_string(child(pod, "spec"), "nodeName").empty()) names.insert(name);
    }
    for (const json& deployment : list("apps", "Deployment")) {
      const std::string name = name_of(deployment);
      if (name.ends_with("scheduler")) names.insert(name);
    }
    offer.schedulers.assign(names.begin(), names.end());
    for (const std::string& name : offer.schedulers) {
      const bool plugins = name.find("scheduler-plugins") != std::string::npos ||
                           name.find("coscheduling") != std::string::npos;
      if (plugins && offer.coscheduling_scheduler.empty()) offer.coscheduling_scheduler = name;
    }
  }

  void read_device_classes() {
    const auto classes = list_in("", "resource.k8s.io", "DeviceClass");
    if (!classes) return;
    auto& names = out_.offer.device_classes.emplace();
    for (const json& each : *classes) names.push_back(name_of(each));
    std::ranges::sort(names);
  }

  // Kueue takes jobs of a namespace by its LocalQueues; without one it would keep them for ever.
  void read_local_queues(const std::string& k8s_namespace) {
    const auto queues = list_in(k8s_namespace, "kueue.x-k8s.io", "LocalQueue");
    if (!queues) return;
    auto& names = out_.offer.local_queues.emplace();
    for (const json& queue : *queues) names.push_back(name_of(queue));
    std::ranges::sort(names);
  }

  void read_kueue_levels() {
    if (!out_.offer.local_queues || out_.offer.local_queues->empty()) return;
    const auto flavors = list_in("", "kueue.x-k8s.io", "ResourceFlavor");
    if (!flavors) return;
    std::set<std::string> used;
    for (const json& each : *flavors) used.insert(json_string(child(each, "spec"), "topologyName"));
    std::vector<std::string> levels;
    if (client_.kind("kueue.x-k8s.io", "Topology").ok()) {
      const auto topologies = list_in("", "kueue.x-k8s.io", "Topology");
      if (!topologies) return;
      for (const json& each : *topologies) {
        if (!used.contains(name_of(each))) continue;
        for (const json& level : items(child(each, "spec"), "levels")) {
          levels.push_back(json_string(level, "nodeLabel"));
        }
      }
    }
    out_.offer.kueue_levels = std::move(levels);
  }

  void read_gangs() {
    KubernetesOffer& offer = out_.offer;
    if (offer.local_queues && !offer.local_queues->empty()) {
      offer.gangs.push_back(GangMechanism::kKueue);
    }
    if (offer.find_kind("scheduling.volcano.sh", "PodGroup") != nullptr &&
        !list("scheduling.volcano.sh", "Queue").empty()) {
      offer.gangs.push_back(GangMechanism::kVolcano);
    }
    if (offer.find_kind("scheduling.x-k8s.io", "PodGroup") != nullptr &&
        !offer.coscheduling_scheduler.empty()) {
      offer.gangs.push_back(GangMechanism::kCoscheduling);
    }
    if (offer.find_kind("scheduling.k8s.io", "PodGroup") != nullptr) {
      offer.gangs.push_back(GangMechanism::kNative);
    }
  }

  void read_trainer() {
    if (out_.offer.find_kind("trainer.kubeflow.org", "TrainJob") == nullptr) return;
    const auto served = client_.kind("apiextensions.k8s.io", "CustomResourceDefinition");
    if (!served.ok()) return;
    const auto crd = client_.get({*served, "", "trainjobs.trainer.kubeflow.org"});
    if (crd.ok()) {
      out_.offer.trainer = trainer_version(*crd);
    } else {
      out_.unread.push_back(crd.error().message);
    }
  }

  void read_storage() {
    for (const json& item : list("storage.k8s.io", "StorageClass")) {
      const json& annotations = child(child(item, "metadata"), "annotations");
      const std::string is_default =
          json_string(annotations, "storageclass.kubernetes.io/is-default-class");
      out_.offer.storage_classes.push_back(
          {.name = name_of(item),
           .provisioner = json_string(item, "provisioner"),
           .is_default = is_default == "true",
           .waits_for_first_consumer =
               json_string(item, "volumeBindingMode") == "WaitForFirstConsumer"});
    }
  }

  void read_networks() {
    for (const json& item : list("k8s.cni.cncf.io", "NetworkAttachmentDefinition")) {
      const json& metadata = child(item, "metadata");
      out_.offer.second_networks.push_back(
          {.k8s_namespace = json_string(metadata, "namespace"),
           .name = json_string(metadata, "name"),
           .resource =
               json_string(child(metadata, "annotations"), "k8s.v1.cni.cncf.io/resourceName")});
    }
  }

 private:
  Client& client_;
  DiscoveredOffer& out_;
};

}  // namespace

void read_node_offers(const std::vector<json>& nodes, KubernetesOffer& offer) {
  std::map<std::string, std::set<std::string>> places;
  for (const json& node : nodes) {
    uint64_t gpus = 0;
    for (const auto& [name, amount] : allocatable_of(node)) {
      auto known = std::ranges::find(offer.resources, name, &ExtendedResource::name);
      if (known == offer.resources.end()) {
        known = offer.resources.insert(offer.resources.end(), {.name = name});
      }
      ++known->nodes;
      known->most_per_node = std::max(known->most_per_node, amount);
      known->total += amount;
      if (is_gpu(name)) gpus = std::max(gpus, amount);
    }
    const json& labels = child(child(node, "metadata"), "labels");
    if (gpus > 0) add_model(labels, gpus, offer.gpu_models);
    add_taints(node, gpus > 0, offer.taints);
    for (const auto& [key, value] : labels.items()) {
      if (places_a_node(key) && value.is_string()) places[key].insert(value.get<std::string>());
    }
  }
  std::ranges::sort(offer.resources, {}, &ExtendedResource::name);
  // The fewer values a level has, the wider it is.
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [key, values] : places) order.emplace_back(values.size(), key);
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    const auto width = [](const auto& entry) {
      const std::string_view key = entry.second;
      return std::pair(entry.first, key.find("region") != key.npos ? 0
                                    : key.find("zone") != key.npos ? 1
                                                                   : 2);
    };
    return std::pair(width(a), a.second) < std::pair(width(b), b.second);
  });
  for (auto& [count, key] : order) offer.topology_labels.push_back(key);
}

std::optional<MinorVersion> trainer_version(const json& crd) {
  for (const json& version : items(child(crd, "spec"), "versions")) {
    const json& spec = child(
        child(child(child(child(version, "schema"), "openAPIV3Schema"), "properties"), "spec"),
        "properties");
    if (spec.contains("runtimePatches")) {
      const bool newest =
          print_json(spec).find("terminationGracePeriodSeconds") != std::string::npos;
      return MinorVersion{2, newest ? 3 : 2};
    }
    if (spec.contains("podTemplateOverrides")) return MinorVersion{2, 1};
    if (spec.contains("podSpecOverrides")) return MinorVersion{2, 0};
  }
  return std::nullopt;
}

MinorVersion server_version(const json& version) {
  const auto number = [&](const char* name) {
    const std::string text = json_string(version, name);
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  return {number("major"), number("minor")};
}

ApiResult<DiscoveredOffer> discover_offer(Client& client, const std::string& k8s_namespace) {
  DiscoveredOffer out;
  const std::string text = TRY(client.get_text("/version", "ask for the server's version"));
  const auto version = parse_json(text);
  if (version) out.offer.server = server_version(*version);
  out.offer.kinds = TRY(client.kinds());
  for (const std::string& gap : client.gaps()) {
    out.unread.push_back("the server of " + gap + " does not answer");
  }
  Discovery discovery(client, out);
  read_node_offers(discovery.list("", "Node"), out.offer);
  discovery.read_schedulers();
  discovery.read_local_queues(k8s_namespace);
  discovery.read_kueue_levels();
  discovery.read_gangs();
  discovery.read_trainer();
  discovery.read_storage();
  discovery.read_networks();
  discovery.read_device_classes();
  return out;
}

}  // namespace shanty::kube
