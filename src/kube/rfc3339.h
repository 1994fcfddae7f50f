#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shanty::kube {

// "2026-11-29T18:04:05Z", also with a fraction or an offset, as seconds since the epoch.
std::optional<int64_t> parse_rfc3339_s(std::string_view text);

}  // namespace shanty::kube
