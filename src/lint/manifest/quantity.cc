#include "lint/manifest/quantity.h"

#include <charconv>

#include "lint/contains.h"

namespace shanty::lint {
namespace {

struct Suffix {
  std::string_view name;
  double factor;
};

constexpr double kLargestQuantity = 1e15;  // sums of many stay within 64 bits
constexpr double kKi = 1024;
constexpr Suffix kSuffixes[] = {
    {"", 1},
    {"n", 1e-9},
    {"u", 1e-6},
    {"m", 1e-3},
    {"k", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"P", 1e15},
    {"Ki", kKi},
    {"E", 1e18},
    {"Mi", kKi* kKi},
    {"Gi", kKi* kKi* kKi},
    {"Ti", kKi* kKi* kKi* kKi},
    {"Pi", kKi* kKi* kKi* kKi* kKi},
};

}  // namespace

std::optional<double> parse_quantity(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || !(value >= 0 && value <= kLargestQuantity)) return {};
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  for (const Suffix& known : kSuffixes) {
    if (suffix != known.name) continue;
    const double amount = value * known.factor;
    return amount <= kLargestQuantity ? std::optional(amount) : std::nullopt;
  }
  return {};
}

bool is_extended_resource(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return false;
  const std::string_view domain = name.substr(0, slash);
  return !contains(domain, "kubernetes.io") && !name.starts_with("requests.");
}

bool is_mig_resource(std::string_view name) { return name.starts_with("nvidia.com/mig-"); }

bool is_gpu_resource(std::string_view name) {
  if (!is_extended_resource(name)) return false;
  for (std::string_view known : {"nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu",
                                 "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"}) {
    if (name == known) return true;
  }
  return is_mig_resource(name) || contains(name, "/gpu") ||
         name.starts_with("aws.amazon.com/neuron");
}

bool is_rdma_resource(std::string_view name) {
  if (!is_extended_resource(name) || is_gpu_resource(name)) return false;
  if (name.starts_with("rdma/")) return true;
  for (std::string_view part :
       {"rdma", "mlnx", "roce", "infiniband", "/hca", "sriov", "/hostdev"}) {
    if (contains(name, part)) return true;
  }
  return false;
}

}  // namespace shanty::lint
