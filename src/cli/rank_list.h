#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace shanty {

inline constexpr int kMaxRank = 1'000'000;

// "0,3-5" -> {0, 3, 4, 5}, ascending, each once.
Result<std::vector<int>> parse_rank_list(std::string_view text);

}  // namespace shanty
