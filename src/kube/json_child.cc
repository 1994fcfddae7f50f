#include "kube/json_child.h"

#include <nlohmann/json.hpp>

#include "text/json_fields.h"

namespace shanty::kube {

using nlohmann::json;

const json& child(const json& object, const char* name) {
  static const json kNone = json::object();
  const json* found = json_object(object, name);
  return found == nullptr ? kNone : *found;
}

const json& items(const json& object, const char* name) {
  static const json kNone = json::array();
  const json* found = json_array(object, name);
  return found == nullptr ? kNone : *found;
}

}  // namespace shanty::kube
