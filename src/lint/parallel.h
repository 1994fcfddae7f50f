#pragma once

#include <cstddef>
#include <functional>

namespace shanty::lint {

// How many threads are used at most, whatever the machine has.
inline constexpr size_t kMaxLintThreads = 16;

// Calls `work(i)` for each i below `count`, on as many threads as the machine has cores, and
// returns when all are done. `work` may not throw.
void for_each_index(size_t count, const std::function<void(size_t)>& work);

}  // namespace shanty::lint
