// Manifests and objects of an API server, read for `shanty check`: no input may crash.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "check/manifest.h"
#include "check/objects.h"
#include "check/pending.h"
#include "kube/offer.h"
#include "kube/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(shanty::kube::parse_quantity(text));
  static_cast<void>(shanty::kube::parse_quantity_milli(text));
  static_cast<void>(shanty::check::is_manifest(text));
  const auto objects = shanty::check::parse_manifests(text, "x.yaml");
  if (!objects.ok()) return 0;
  static_cast<void>(shanty::check::workload_of(*objects, "ml"));
  for (const nlohmann::json& object : *objects) {
    static_cast<void>(shanty::check::read_node(object));
    static_cast<void>(shanty::check::read_pod(object));
    static_cast<void>(shanty::check::read_quota(object));
    static_cast<void>(shanty::check::read_limits(object));
    static_cast<void>(shanty::check::read_cluster_queue(object, {{"a", "b"}}));
    static_cast<void>(shanty::kube::trainer_version(object));
  }
  shanty::KubernetesOffer offer;
  shanty::kube::read_node_offers(*objects, offer);
  static_cast<void>(shanty::check::waiting_findings(
      {.pods = *objects, .deciders = *objects, .events = *objects}));
  return 0;
}
