#include <algorithm>

#include "base/hash.h"
#include "render/render.h"

namespace shanty {
namespace {

// A pod of Trainer is NAME-node-0-99999-abcde, and labels end at 63 characters.
constexpr size_t kMaxNameBytes = 40;
constexpr size_t kHashBytes = 6;

}  // namespace

std::string kubernetes_name(std::string_view job_name) {
  std::string name;
  for (const char c : job_name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool fits = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    name += upper ? static_cast<char>(c | 0x20) : fits ? c : '-';
  }
  if (name.empty() || name.front() < 'a') name = "job-" + name;  // digits and dashes come first
  const bool is_cut = name.size() > kMaxNameBytes;
  if (is_cut) name.resize(kMaxNameBytes - kHashBytes - 1);
  while (name.ends_with('-')) name.pop_back();
  return is_cut ? name + "-" + hex(sha256(job_name)).substr(0, kHashBytes) : name;
}

}  // namespace shanty
