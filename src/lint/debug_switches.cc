#include "lint/debug_switches.h"

namespace shanty::lint {
namespace {

struct Switch {
  std::string_view name;
  std::string_view value;
  std::string_view effect;
};

constexpr Switch kSwitches[] = {
    {"CUDA_LAUNCH_BLOCKING", "1", "every kernel is waited for: nothing overlaps"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL",
     "every collective is preceded by another one that compares it"},
    {"NCCL_DEBUG", "TRACE", "every call is a line in the log"},
    {"TORCH_NCCL_BLOCKING_WAIT", "1", "the CPU waits for each collective"},
};

bool is_same(std::string_view a, std::string_view upper) {
  if (a.size() != upper.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'a' && a[i] <= 'z' ? static_cast<char>(a[i] - 'a' + 'A') : a[i];
    if (c != upper[i]) return false;
  }
  return true;
}

}  // namespace

std::string_view debugging_effect(std::string_view name, std::string_view value) {
  for (const Switch& known : kSwitches) {
    if (known.name == name && is_same(value, known.value)) return known.effect;
  }
  return {};
}

}  // namespace shanty::lint
