// kubeconfig files: no input may crash, and no error may show what is in it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kube/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto config = shanty::kube::parse_kubeconfig(text, "/k/config");
  if (!config.ok()) return 0;
  shanty::kube::Kubeconfig merged;
  shanty::kube::merge_kubeconfig(merged, *config);
  shanty::kube::merge_kubeconfig(merged, std::move(config).value());
  return 0;
}
