#include "telemetry/time_ledger.h"

#include <algorithm>

#include "base/clock.h"

namespace shanty {

double TimeLedger::overlap_s(int64_t from_ns, int64_t to_ns) const {
  double total = 0;
  for (const Interval& interval : exceptions_) {
    const int64_t from = std::max(from_ns, interval.from_ns);
    const int64_t to = std::min(to_ns, interval.to_ns);
    if (to > from) total += ns_to_seconds(to - from);
  }
  return total;
}

double TimeLedger::spend_until(int64_t until_ns, const std::string& cause) {
  const int64_t until = std::min(until_ns, end_ns_);
  if (until <= at_ns_) return 0;
  const double all = ns_to_seconds(until - at_ns_);
  const double excepted = cause.empty() ? 0 : std::min(overlap_s(at_ns_, until), all);
  if (excepted > 0) seconds_[exception_] += excepted;
  seconds_[cause] += all - excepted;
  at_ns_ = until;
  return all;
}

void TimeLedger::move_useful(double seconds, const std::string& cause) {
  const double moved = std::clamp(seconds, 0.0, useful_s());
  seconds_[""] -= moved;
  seconds_[cause] += moved;
}

double TimeLedger::seconds(const std::string& cause) const {
  const auto it = seconds_.find(cause);
  return it == seconds_.end() ? 0 : it->second;
}

}  // namespace shanty
