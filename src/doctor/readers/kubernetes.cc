#include <charconv>

#include "base/units.h"
#include "doctor/readers/readers.h"
#include "text/utf8.h"
#include "text/yaml_tree.h"

namespace shanty {
namespace {

constexpr YamlLimits kLimits = {.bytes = kMaxFactsText,
                                .depth = 64,
                                .nodes = 2'000'000,
                                .scalar_bytes = 1u << 20,
                                .documents = 1000};

const YamlNode* at(const YamlNode* node, std::string_view key) {
  return node ? node->find(key) : nullptr;
}

std::string text_at(const YamlNode* node, std::string_view key) {
  const YamlNode* found = at(node, key);
  return found && found->kind == YamlNode::Kind::kScalar ? printable(found->text) : "";
}

int64_t number_at(const YamlNode* node, std::string_view key, int64_t fallback) {
  const YamlNode* found = at(node, key);
  if (!found) return fallback;
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(found->text.data(), found->text.data() + found->text.size(), value);
  return error == std::errc{} && end != found->text.data() ? value : fallback;
}

template <typename Use>
void each_item(const YamlNode* list, const Use& use) {
  if (!list || list->kind != YamlNode::Kind::kSequence) return;
  for (const YamlNode& item : list->items) use(&item);
}

bool is_sidecar(const std::string& container) {
  return container == "istio-proxy" || container == "linkerd-proxy" || container == "envoy-sidecar";
}

void read_container(const YamlNode* container, PodFact& pod) {
  pod.has_sidecar |= is_sidecar(text_at(container, "name"));
  pod.gpus += std::max<int64_t>(
      0, number_at(at(at(container, "resources"), "limits"), "nvidia.com/gpu", 0));
  each_item(at(container, "volumeMounts"), [&](const YamlNode* mount) {
    pod.shm_mounted |= text_at(mount, "mountPath") == "/dev/shm";
  });
  each_item(at(container, "env"), [&](const YamlNode* variable) {
    const std::string value = text_at(variable, "value");
    if (!value.empty()) pod.env[text_at(variable, "name")] = value;
  });
}

void read_status(const YamlNode* status, PodFact& pod) {
  pod.phase = text_at(status, "phase");
  pod.reason = text_at(status, "reason");
  pod.message = text_at(status, "message");
  pod.pod_ip = text_at(status, "podIP");
  pod.host_ip = text_at(status, "hostIP");
  each_item(at(status, "conditions"), [&](const YamlNode* condition) {
    if (text_at(condition, "type") == "DisruptionTarget" &&
        text_at(condition, "status") != "False") {
      pod.disruption = text_at(condition, "reason");
    }
  });
  for (const auto list : {"initContainerStatuses", "containerStatuses"}) {
    each_item(at(status, list), [&](const YamlNode* container) {
      pod.restarts = std::max(pod.restarts, number_at(container, "restartCount", 0));
      if (pod.image_id.empty()) pod.image_id = text_at(container, "imageID");
      for (const auto which : {"lastState", "state"}) {
        const YamlNode* ended = at(at(container, which), "terminated");
        const int64_t code = number_at(ended, "exitCode", -1);
        if (ended && code != 0 && (pod.last_reason.empty() || which[0] == 'l')) {
          pod.last_reason = text_at(ended, "reason");
          pod.last_exit_code = static_cast<int>(code);
          pod.where.line = static_cast<uint64_t>(ended->place.line);
          pod.where.text = "terminated: " + pod.last_reason + ", exit code " + std::to_string(code);
        }
      }
      if (const YamlNode* waiting = at(at(container, "state"), "waiting")) {
        pod.waiting_reason = text_at(waiting, "reason");
        pod.waiting_message = text_at(waiting, "message");
      }
    });
  }
}

void read_pod(const YamlNode& object, const std::string& name, ClusterFacts& facts) {
  PodFact pod;
  pod.name = text_at(at(&object, "metadata"), "name");
  pod.where = {.file = name, .line = static_cast<uint64_t>(object.place.line), .text = ""};
  const YamlNode* spec = at(&object, "spec");
  pod.node = text_at(spec, "nodeName");
  pod.host_network = text_at(spec, "hostNetwork") == "true";
  pod.dns_policy = text_at(spec, "dnsPolicy");
  for (const auto list : {"initContainers", "containers"}) {
    each_item(at(spec, list), [&](const YamlNode* c) { read_container(c, pod); });
  }
  if (const YamlNode* annotations = at(at(&object, "metadata"), "annotations")) {
    pod.has_sidecar |= annotations->find("sidecar.istio.io/status") != nullptr;
  }
  read_status(at(&object, "status"), pod);
  if (pod.where.text.empty()) pod.where.text = "pod " + pod.name + ", " + pod.phase;
  facts.pods.push_back(std::move(pod));
}

void read_node(const YamlNode& object, const std::string& name, ClusterFacts& facts) {
  NodeFact node;
  node.name = text_at(at(&object, "metadata"), "name");
  const YamlNode* allocatable = at(at(&object, "status"), "allocatable");
  if (allocatable) node.gpus_allocatable = number_at(allocatable, "nvidia.com/gpu", 0);
  const YamlNode* line = allocatable ? allocatable : &object;
  node.where = {.file = name,
                .line = static_cast<uint64_t>(line->place.line),
                .text = "allocatable nvidia.com/gpu: " + std::to_string(node.gpus_allocatable)};
  facts.nodes.push_back(std::move(node));
}

// What an event says of its pod.
void read_event(const YamlNode& object, const std::string& name, ClusterFacts& facts) {
  const YamlNode* about = at(&object, "involvedObject");
  if (!about) about = at(&object, "regarding");
  if (text_at(about, "kind") != "Pod") return;
  const std::string reason = text_at(&object, "reason");
  PodFact pod;
  pod.name = text_at(about, "name");
  pod.node = text_at(at(&object, "source"), "host");
  pod.message = text_at(&object, "message");
  if (pod.message.empty()) pod.message = text_at(&object, "note");
  pod.shm_mounted = true;  // nothing is known of its volumes
  if (pod.message.find("pull image") != std::string::npos) pod.waiting_reason = "ErrImagePull";
  if (reason == "FailedScheduling") pod.phase = "Pending";
  if (reason == "Evicted") pod.reason = reason;
  if (pod.waiting_reason.empty() && pod.phase.empty() && pod.reason.empty()) return;
  const std::string text = reason + ": " + pod.message;
  pod.where = {.file = name, .line = static_cast<uint64_t>(object.place.line), .text = text};
  facts.pods.push_back(std::move(pod));
}

// PodGroup of Volcano and of the scheduler plugins, Workload of Kueue.
void read_gang(const YamlNode& object, const std::string& name, ClusterFacts& facts) {
  each_item(at(at(&object, "status"), "conditions"), [&](const YamlNode* condition) {
    const std::string type = text_at(condition, "type");
    const bool waits = (type == "Unschedulable" && text_at(condition, "status") == "True") ||
                       (type == "QuotaReserved" && text_at(condition, "status") == "False");
    if (!waits) return;
    facts.gangs.push_back({.name = text_at(at(&object, "metadata"), "name"),
                           .where = {.file = name,
                                     .line = static_cast<uint64_t>(condition->place.line),
                                     .text = type + ": " + text_at(condition, "message")}});
  });
}

void read_object(const YamlNode& object, const std::string& name, ClusterFacts& facts) {
  const std::string kind = text_at(&object, "kind");
  if (kind == "Pod") read_pod(object, name, facts);
  if (kind == "Node") read_node(object, name, facts);
  if (kind == "Event") read_event(object, name, facts);
  if (kind == "PodGroup" || kind == "Workload") read_gang(object, name, facts);
  if (kind == "List" || kind == "PodList" || kind == "NodeList" || kind == "EventList") {
    each_item(at(&object, "items"), [&](const YamlNode* item) {
      if (kind == "PodList" || text_at(item, "kind") == "Pod") {
        read_pod(*item, name, facts);
      } else if (kind == "NodeList" || text_at(item, "kind") == "Node") {
        read_node(*item, name, facts);
      } else if (kind == "EventList" || text_at(item, "kind") == "Event") {
        read_event(*item, name, facts);
      }
    });
  }
}

}  // namespace

void read_kubernetes(std::string_view text, const std::string& name, ClusterFacts& facts) {
  const ParsedYaml parsed = parse_documents(text, name, kLimits);
  for (const YamlNode& object : parsed.documents) read_object(object, name, facts);
}

}  // namespace shanty
