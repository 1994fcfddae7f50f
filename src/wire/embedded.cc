#include "wire/embedded.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shanty::wire {

size_t nesting_depth(std::string_view json) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string canonical_object(std::string_view json, size_t max_bytes) {
  if (json.size() > max_bytes || nesting_depth(json) > kMaxEmbeddedDepth) return "";
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return "";
  std::string text = object.dump();
  return text.size() <= max_bytes ? text : "";
}

}  // namespace shanty::wire
