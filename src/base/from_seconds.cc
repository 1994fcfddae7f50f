#include "base/from_seconds.h"

namespace shanty {

Duration from_seconds(double seconds) {
  if (!(seconds > 0)) return Duration::zero();
  if (seconds >= to_seconds(kLongestDuration)) return kLongestDuration;
  return Duration(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace shanty
