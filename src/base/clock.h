#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace shanty {

using Duration = std::chrono::nanoseconds;

// Monotonic time of this machine, as nanoseconds since an arbitrary start. Decision code gets it
// as an argument; only shells read a Clock.
struct TimePoint {
  int64_t ns = 0;
  friend auto operator<=>(const TimePoint&, const TimePoint&) = default;
  friend Duration operator-(TimePoint a, TimePoint b) { return Duration(a.ns - b.ns); }
  friend TimePoint operator+(TimePoint t, Duration d) { return {t.ns + d.count()}; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;         // CLOCK_MONOTONIC
  virtual int64_t unix_time_ns() const = 0;  // CLOCK_REALTIME, for what is written or shown
};

// The machine's clocks. Process-wide, stateless, any thread.
const Clock& system_clock();

inline double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
inline double ns_to_seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// "2026-11-29T18:04:05.123Z" for nanoseconds since the epoch.
std::string format_utc(int64_t unix_time_ns);
// Local wall time, "18:04:05".
std::string format_local_time_of_day(int64_t unix_time_ns);

}  // namespace shanty
