#pragma once

#include <chrono>

#include "base/clock.h"

namespace shanty::ckpt {

// For a question that the leader answers once all ranks have asked it.
constexpr Duration kAllRanksLimit = std::chrono::minutes(5);
// A network file system may show a new file to another client only after its attribute cache.
constexpr Duration kAppearLimit = std::chrono::seconds(90);
constexpr Duration kAppearPoll = std::chrono::milliseconds(200);

}  // namespace shanty::ckpt
