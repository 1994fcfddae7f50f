#pragma once

#include <string_view>

namespace shanty {

// The driver of a RayJob: one actor per worker pod, each of which runs the agent of one node.
extern const std::string_view kRayScript;

}  // namespace shanty
