#include "follow/cluster_event.h"

#include <nlohmann/json.hpp>

#include "text/json_fields.h"

namespace shanty::follow {

using nlohmann::json;

std::optional<ClusterEvent> read_event(const json& object) {
  const json* about = object.is_object() ? json_object(object, "involvedObject") : nullptr;
  if (about == nullptr) return std::nullopt;
  ClusterEvent event{.about_kind = json_string(*about, "kind"),
                     .about_name = json_string(*about, "name"),
                     .about_uid = json_string(*about, "uid"),
                     .reason = json_string(object, "reason"),
                     .message = json_string(object, "message"),
                     .is_warning = json_string(object, "type") == "Warning"};
  if (const json* source = json_object(object, "source")) event.host = json_string(*source, "host");
  if (event.about_name.empty()) return std::nullopt;
  return event;
}

std::string pull_time(std::string_view message) {
  const size_t image_end = message.find("\" in ");
  if (image_end == std::string_view::npos) return "";
  std::string_view time = message.substr(image_end + 5);
  time = time.substr(0, time.find(' '));
  if (time.ends_with('.')) time.remove_suffix(1);
  return std::string(time);
}

std::string pulled_image(std::string_view message) {
  const size_t open = message.find("mage \"");
  if (open == std::string_view::npos) return "";
  const std::string_view rest = message.substr(open + 6);
  const size_t close = rest.find('"');
  return close == std::string_view::npos ? "" : std::string(rest.substr(0, close));
}

}  // namespace shanty::follow
