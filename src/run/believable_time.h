#pragma once

#include <algorithm>
#include <cstdint>

namespace shanty {

// A time that came from a file or a worker, brought into a range (1970 to 2116) in which
// differences cannot overflow.
inline int64_t believable_unix_ns(int64_t unix_ns) {
  constexpr int64_t kLatest = int64_t{1} << 62;
  return std::clamp<int64_t>(unix_ns, 0, kLatest);
}

}  // namespace shanty
