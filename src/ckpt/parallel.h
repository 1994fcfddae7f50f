#pragma once

#include <cstddef>
#include <functional>

namespace shanty::ckpt {

// Calls `work(i)` for each i below `count`, by at most `threads` threads, in any order; by the
// caller alone when one is enough. Stops handing out more once a call returns false.
void for_each_parallel(size_t count, int threads, const std::function<bool(size_t)>& work);

}  // namespace shanty::ckpt
