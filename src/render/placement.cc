#include <algorithm>

#include <fmt/format.h>

#include "render/gpu_model.h"
#include "render/pod.h"

namespace shanty {
namespace {

constexpr const char* kProductLabel = "nvidia.com/gpu.product";

bool wants_gpus(const RenderContext& c) { return c.job.gpu.resource != kNoGpus; }

// "rack" -> the label of the nodes that tells their rack.
std::string topology_label(const RenderContext& c) {
  const std::string& level = c.job.schedule.topology;
  if (level.find('/') != std::string::npos) return level;
  if (level == "zone" || level == "region") return "topology.kubernetes.io/" + level;
  if (level == "node" || level == "host") return "kubernetes.io/hostname";
  const auto offered = std::ranges::find_if(c.offer.topology_labels, [&](const std::string& label) {
    return label.find(level, label.find('/') + 1) != std::string::npos;
  });
  if (offered != c.offer.topology_labels.end()) return *offered;
  c.notes.push_back(fmt::format(
      "schedule.topology: no node label is known for {}; topology.kubernetes.io/{} is a guess, the "
      "label itself can be given",
      level, level));
  return "topology.kubernetes.io/" + level;
}

// Kueue never admits a job that asks for a level by which none of its flavors places pods.
bool kueue_places_by(const RenderContext& c, const std::string& label) {
  if (!c.gang.is(GangMechanism::kKueue)) return false;
  const auto& levels = c.offer.kueue_levels;
  if (levels && std::ranges::find(*levels, label) == levels->end()) return false;
  if (!levels) {
    c.notes.push_back(fmt::format(
        "schedule.topology: Kueue must have a flavor whose Topology has the level {}; without one "
        "it never admits the job",
        label));
  }
  return true;
}

void add_model(const RenderContext& c, Yaml& spec) {
  if (c.job.gpu.model.empty() || !wants_gpus(c)) return;
  const auto products = gpu_products(c.job.gpu.model, c.offer);
  if (products.empty()) {
    c.notes.push_back(fmt::format(
        "gpu.model {} is not known; the value of the node label {} can be given instead",
        c.job.gpu.model, kProductLabel));
    return;
  }
  Yaml term;
  Yaml& expression = term["matchExpressions"].push(Yaml::mapping());
  expression.set("key", kProductLabel, "One model in all pods: the slowest GPU sets the pace.");
  expression.set("operator", "In").set("values", Yaml::texts(products));
  spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
      ["nodeSelectorTerms"]
          .push(term);
}

void add_topology(const RenderContext& c, Yaml& spec) {
  if (c.job.schedule.topology.empty() || c.nodes == 1) return;
  const std::string label = topology_label(c);
  if (kueue_places_by(c, label)) return;  // an annotation of the pods, see add_metadata
  Yaml preferred;
  preferred.set("weight", 100);
  Yaml& term = preferred["podAffinityTerm"];
  term["labelSelector"]["matchLabels"].set("shanty.dev/job", c.name);
  term.set("topologyKey", label,
           "Near each other if there is room. Required would leave the job Pending when no such "
           "place is free at once.");
  spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"].push(
      preferred);
}

// "dedicated=training:NoSchedule", "dedicated:NoSchedule", "dedicated".
Yaml toleration(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string pair = text.substr(0, colon);
  const size_t equals = pair.find('=');
  Yaml out;
  out.set("key", pair.substr(0, equals));
  out.set("operator", equals == std::string::npos ? "Exists" : "Equal");
  if (equals != std::string::npos) out.set("value", pair.substr(equals + 1));
  if (colon != std::string::npos) out.set("effect", text.substr(colon + 1));
  return out;
}

void add_tolerations(const RenderContext& c, Yaml& spec) {
  for (const std::string& text : c.job.schedule.tolerations) {
    spec["tolerations"].push(toleration(text));
  }
  const std::string& resource = c.job.gpu.resource;
  if (!wants_gpus(c)) return;
  // Slices have the taint of the GPUs they are cut from.
  const std::string key = resource.starts_with("nvidia.com/") ? "nvidia.com/gpu" : resource;
  Yaml gpu;
  gpu.set(
      "key", key,
      "Nodes with GPUs often keep other pods away by this taint; where no admission plugin adds "
      "the toleration, the pods would stay Pending.");
  gpu.set("operator", "Exists").set("effect", "NoSchedule");
  spec["tolerations"].push(gpu);
}

}  // namespace

bool has_placement(const RenderContext& c) {
  Yaml spec;
  const size_t notes = c.notes.size();
  add_placement(c, spec);
  c.notes.resize(notes);
  return !spec.empty();
}

void add_placement(const RenderContext& c, Yaml& spec) {
  for (const auto& [key, value] : c.job.schedule.node_selector) {
    spec["nodeSelector"].set(key, value);
  }
  add_model(c, spec);
  add_topology(c, spec);
  add_tolerations(c, spec);
}

std::string kueue_topology(const RenderContext& c) {
  if (c.job.schedule.topology.empty() || c.nodes == 1) return "";
  const std::string label = topology_label(c);
  return kueue_places_by(c, label) ? label : "";
}

}  // namespace shanty
