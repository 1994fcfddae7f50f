#pragma once

#include "base/clock.h"

namespace shanty {

// The longest that a limit given in seconds can be: two of them fit into a TimePoint's future.
inline constexpr Duration kLongestDuration = std::chrono::hours(24 * 365 * 100);
// Of what people give: beyond kLongestDuration it is that, below 0 or no number it is none.
Duration from_seconds(double seconds);

}  // namespace shanty
