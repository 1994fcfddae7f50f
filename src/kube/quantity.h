#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shanty::kube {

// Kubernetes' resource quantities: "500m", "1.5", "64Gi", "2e3", "100M". Nothing for other text and
// for what does not fit. Parts smaller than the unit are rounded up, as Kubernetes does.
std::optional<int64_t> parse_quantity(std::string_view text);        // in units
std::optional<int64_t> parse_quantity_milli(std::string_view text);  // in thousandths

}  // namespace shanty::kube
