#include <algorithm>
#include <map>

#include "check/objects.h"
#include "check/probes/areas.h"

namespace shanty::check {
namespace {

constexpr const char* kProduct = "nvidia.com/gpu.product";
constexpr const char* kDriver = "nvidia.com/cuda.driver-version.full";
constexpr const char* kOldDriverParts[] = {
    "nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev"};
// Labels that say a GPU is in the machine whatever the device plugin does.
constexpr const char* kPresent[] = {"nvidia.com/gpu.present",
                                    "feature.node.kubernetes.io/pci-10de.present",
                                    "feature.node.kubernetes.io/pci-0302_10de.present"};

std::string label(const FitNode& node, const char* key) {
  const auto found = node.labels.find(key);
  return found == node.labels.end() ? "" : found->second;
}

std::string driver(const FitNode& node) {
  std::string version = label(node, kDriver);
  if (!version.empty()) return version;
  for (const char* part : kOldDriverParts) {
    const std::string value = label(node, part);
    if (!value.empty()) version += (version.empty() ? "" : ".") + value;
  }
  return version;
}

bool says_gpu(const FitNode& node) {
  return std::ranges::any_of(kPresent, [&](const char* key) { return label(node, key) == "true"; });
}

std::string accelerator(const Workload& workload) {
  for (const auto& [name, amount] : workload.request.groups.front().per_pod) {
    const bool gpu =
        name.find("gpu") != std::string::npos || name.find("mig-") != std::string::npos;
    if (amount > 0 && name.find('/') != std::string::npos && gpu) return name;
  }
  return "";
}

using Values = std::map<std::string, std::vector<std::string>>;

std::string values_text(const Values& values) {
  std::string out;
  for (const auto& [value, nodes] : values) {
    out += (out.empty() ? "" : ", ") + value + " on " + counted(nodes.size(), "node");
  }
  return out;
}

}  // namespace

// GPU050: none to be had. GPU051: fewer than the machine has. GPU052, GPU053: models or drivers
// differ among the nodes that the job may land on.
void probe_gpus(const ProbeInput& in, std::vector<Finding>& findings) {
  const std::string name = accelerator(in.workload);
  if (name.empty() || in.snapshot.gives_by_claims(name)) return;
  std::vector<std::string> silent;
  std::vector<std::string> fewer;
  Values models;
  Values drivers;
  bool any = false;
  for (size_t i = 0; i < in.snapshot.nodes.size(); ++i) {
    const NodeFacts& node = in.snapshot.nodes[i];
    const auto has = [&](const Amounts& amounts) {
      const auto found = amounts.find(name);
      return found == amounts.end() ? int64_t{0} : found->second;
    };
    const int64_t allocatable = has(node.fit.allocatable);
    any = any || allocatable > 0;
    if (allocatable == 0 && (says_gpu(node.fit) || has(node.capacity) > 0)) {
      silent.push_back(node.fit.name);
    } else if (allocatable < has(node.capacity)) {
      fewer.push_back(node.fit.name);
    }
    const NodeState state = in.fit.nodes[i].state;
    if (allocatable == 0 || (state != NodeState::kOpen && state != NodeState::kBusy)) continue;
    if (const std::string model = label(node.fit, kProduct); !model.empty()) {
      models[model].push_back(node.fit.name);
    }
    if (const std::string version = driver(node.fit); !version.empty()) {
      drivers[version].push_back(node.fit.name);
    }
  }
  if (!any) {
    Finding finding =
        make_finding("GPU050", Severity::kError, "no node has " + name + " to give away");
    if (!silent.empty()) {
      finding.message += ", though " + counted(silent.size(), "node") +
                         " has GPUs by its labels: " + joined(silent);
    }
    finding.subject.nodes = silent;
    findings.push_back(std::move(finding));
  } else if (!silent.empty()) {
    Finding finding = make_finding("GPU050", in.fit.fits ? Severity::kNote : Severity::kWarning,
                                   counted(silent.size(), "node") + " has GPUs but gives no " +
                                       name + " away: " + joined(silent));
    finding.subject.nodes = silent;
    findings.push_back(std::move(finding));
  }
  if (!fewer.empty()) {
    Finding finding = make_finding("GPU051", in.fit.fits ? Severity::kNote : Severity::kWarning,
                                   counted(fewer.size(), "node") + " gives fewer " + name +
                                       " away than it has: " + joined(fewer));
    finding.subject.nodes = fewer;
    findings.push_back(std::move(finding));
  }
  if (in.workload.pods() < 2) return;
  if (models.size() > 1) {
    findings.push_back(make_finding("GPU052", Severity::kWarning,
                                    "the pods may land on different GPUs: " + values_text(models)));
  }
  if (drivers.size() > 1) {
    findings.push_back(
        make_finding("GPU053", Severity::kWarning,
                     "the pods may land on nodes with different drivers: " + values_text(drivers)));
  }
}

}  // namespace shanty::check
