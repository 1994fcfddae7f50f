#pragma once

#include "base/clock.h"

namespace shanty::follow {

// How long the API server may be out of reach before whoever needs it gives up. The tries of a
// watch (failures in kube/watch.h) take about as long.
inline constexpr Duration kGiveUpAfter = std::chrono::minutes(8);

}  // namespace shanty::follow
