#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace shanty::follow {

// An Event object: what a component of the cluster says about another object.
struct ClusterEvent {
  std::string about_kind;  // "Pod"
  std::string about_name;
  std::string about_uid;
  std::string reason;  // "Pulling"
  std::string message;
  std::string host;  // of the kubelet that says so; "" = not told
  bool is_warning = false;
};

// Nothing when `object` is no event about anything.
std::optional<ClusterEvent> read_event(const nlohmann::json& object);

// `Successfully pulled image "x" in 34.2s (34.2s including waiting)...` -> "34.2s"; "" when the
// message tells no time.
std::string pull_time(std::string_view message);
// The image that a message of the kubelet names; "" = none.
std::string pulled_image(std::string_view message);

}  // namespace shanty::follow
