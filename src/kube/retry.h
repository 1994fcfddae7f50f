#pragma once

#include <optional>

#include "base/clock.h"
#include "kube/client.h"
#include "net/http_client.h"

namespace shanty::kube {

// How long to wait before attempt `attempt` + 1 (they count from 1); nothing when the answer is
// final. `repeatable`: doing it twice is the same as once. `spread` in [0, 1) takes clients apart.
std::optional<Duration> wait_before_retry(const net::HttpAnswer& answer, bool repeatable,
                                          int attempt, const RetryLimits& limits, double spread);

}  // namespace shanty::kube
