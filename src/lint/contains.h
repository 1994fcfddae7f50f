#pragma once

#include <string_view>

namespace shanty::lint {

// What std::string_view can only say from C++23 on.
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace shanty::lint
