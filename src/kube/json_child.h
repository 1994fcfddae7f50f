#pragma once

#include <nlohmann/json_fwd.hpp>

namespace shanty::kube {

// The object or list `name` of `object`; an empty one when it is missing or of another type. What
// comes back lives as long as `object`.
const nlohmann::json& child(const nlohmann::json& object, const char* name);
const nlohmann::json& items(const nlohmann::json& object, const char* name);

}  // namespace shanty::kube
