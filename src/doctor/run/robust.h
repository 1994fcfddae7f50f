#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace shanty {

// Statistics that a few wild values do not move. All are NaN for nothing.
double median_of(std::vector<double> values);
// Median distance from the median, scaled so that it is the standard deviation of normal noise.
double spread_of(const std::vector<double>& values);

// A lasting change of level.
struct Shift {
  size_t index = 0;      // the first value of the new level
  size_t uncertain = 0;  // it may be as many values away
  double before = 0;     // medians
  double after = 0;
};
inline constexpr size_t kMinShiftValues = 40;   // fewer say nothing
inline constexpr double kMinShiftRatio = 0.10;  // of the level before
// The one split that explains the values best, where the levels differ by more than
// kMinShiftRatio, by more than twice the spread, and nearly every pair of values tells so.
std::optional<Shift> find_shift(std::span<const double> values);

}  // namespace shanty
