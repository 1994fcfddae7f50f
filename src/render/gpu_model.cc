#include "render/gpu_model.h"

#include <algorithm>

namespace shanty {
namespace {

// As GPU feature discovery writes them: the driver's name of the device, blanks as dashes.
constexpr std::string_view kProducts[] = {
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100-PCIE-40GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H100-NVL",
    "NVIDIA-H200",
    "NVIDIA-H200-NVL",
    "NVIDIA-H20",
    "NVIDIA-B200",
    "NVIDIA-B300-SXM6-AC",
    "NVIDIA-GB200",
    "NVIDIA-GB300",
    "NVIDIA-L4",
    "NVIDIA-L40",
    "NVIDIA-L40S",
    "NVIDIA-A10",
    "NVIDIA-A10G",
    "NVIDIA-A30",
    "NVIDIA-A40",
    "NVIDIA-GeForce-RTX-3090",
    "NVIDIA-GeForce-RTX-4090",
    "NVIDIA-GeForce-RTX-5090",
    "Tesla-T4",
    "Tesla-V100-SXM2-16GB",
    "Tesla-V100-SXM2-32GB",
    "Tesla-V100-PCIE-16GB",
    "Tesla-V100-PCIE-32GB",
};

// "NVIDIA-A100-SXM4-80GB" -> a100, sxm4, 80gb.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    const bool inner = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (inner) {
      words.back() += lower;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// "80g" is "80gb", "sxm" is "sxm4".
bool is_meant(const std::string& wanted, const std::vector<std::string>& product) {
  return std::ranges::any_of(product, [&](const std::string& word) {
    return word == wanted || word == wanted + "b" || (wanted == "sxm" && word.starts_with(wanted));
  });
}

}  // namespace

std::vector<std::string> gpu_products(std::string_view model, const KubernetesOffer& offer) {
  std::vector<std::string> candidates;
  for (const GpuModelOffer& known : offer.gpu_models) candidates.push_back(known.product);
  if (candidates.empty()) candidates.assign(std::begin(kProducts), std::end(kProducts));
  if (std::ranges::find(candidates, model) != candidates.end()) return {std::string(model)};
  std::vector<std::string> wanted = words_of(model);
  std::erase_if(wanted, [](const std::string& w) { return w == "nvidia" || w == "tesla"; });
  const auto is_wanted = [&](std::string_view word) {
    return std::ranges::find(wanted, word) != wanted.end();
  };
  std::vector<std::string> found;
  for (const std::string& product : candidates) {
    const auto words = words_of(product);
    // Slices and shared GPUs are only for those who ask for them: two ranks on one GPU cannot meet.
    const bool is_part = std::ranges::any_of(words, [&](const std::string& word) {
      return (word == "mig" || word == "shared") && !is_wanted(word);
    });
    const bool fits =
        !is_part && !wanted.empty() &&
        std::ranges::all_of(wanted, [&](const std::string& w) { return is_meant(w, words); });
    if (fits) found.push_back(product);
  }
  // A value that only this cluster's nodes have.
  if (found.empty() && model.find("NVIDIA-") == 0) found.emplace_back(model);
  return found;
}

}  // namespace shanty
