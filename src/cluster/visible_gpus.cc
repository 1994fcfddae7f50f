#include "cluster/visible_gpus.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>

#include "text/words.h"

namespace shanty {
namespace {

bool is_ordinal(std::string_view entry, uint64_t present) {
  uint64_t ordinal = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  return error == std::errc() && end == entry.data() + entry.size() && ordinal < present;
}

}  // namespace

uint64_t visible_gpus(uint64_t present, const char* visible) {
  if (visible == nullptr || present == 0) return present;
  std::set<std::string_view> seen;
  std::string_view rest = visible;
  while (!rest.empty()) {
    const std::string_view entry = trimmed(rest.substr(0, rest.find(',')), " \t");
    rest.remove_prefix(std::min(rest.size(), rest.find(',')));
    if (!rest.empty()) rest.remove_prefix(1);
    const bool named = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!named && !is_ordinal(entry, present)) break;
    if (!seen.insert(entry).second) return 0;
  }
  return seen.size();
}

}  // namespace shanty
