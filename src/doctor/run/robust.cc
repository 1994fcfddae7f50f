#include "doctor/run/robust.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shanty {
namespace {

constexpr size_t kMaxBins = 256;
constexpr size_t kMinSide = 8;      // bins on each side of a split
constexpr double kSurePairs = 0.9;  // of (before, after) pairs that tell the direction
constexpr double kNormal = 1.4826;

std::vector<double> bins_of(std::span<const double> values, size_t per_bin) {
  std::vector<double> bins;
  for (size_t at = 0; at < values.size(); at += per_bin) {
    const auto part = values.subspan(at, std::min(per_bin, values.size() - at));
    bins.push_back(median_of({part.begin(), part.end()}));
  }
  return bins;
}

double distance_to(std::span<const double> values, double level) {
  double sum = 0;
  for (const double value : values) sum += std::abs(value - level);
  return sum;
}

double median_of_span(std::span<const double> values) {
  return median_of({values.begin(), values.end()});
}

double pairs_that_rise(std::span<const double> before, std::span<const double> after) {
  size_t rise = 0;
  for (const double a : before) {
    for (const double b : after) rise += b > a ? 1 : 0;
  }
  return static_cast<double>(rise) / static_cast<double>(before.size() * after.size());
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double spread_of(const std::vector<double>& values) {
  const double middle = median_of(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return kNormal * median_of(std::move(distances));
}

std::optional<Shift> find_shift(std::span<const double> values) {
  if (values.size() < kMinShiftValues) return std::nullopt;
  const size_t per_bin = (values.size() + kMaxBins - 1) / kMaxBins;
  const std::vector<double> bins = bins_of(values, per_bin);
  const std::span<const double> all(bins);
  size_t best = 0;
  double least = std::numeric_limits<double>::max();
  for (size_t split = kMinSide; split + kMinSide <= bins.size(); ++split) {
    const auto before = all.first(split);
    const auto after = all.subspan(split);
    const double distance =
        distance_to(before, median_of_span(before)) + distance_to(after, median_of_span(after));
    if (distance < least) {
      least = distance;
      best = split;
    }
  }
  if (best == 0) return std::nullopt;
  const auto before = all.first(best);
  const auto after = all.subspan(best);
  const Shift shift{best * per_bin, per_bin, median_of_span(before), median_of_span(after)};
  const double change = std::abs(shift.after - shift.before);
  const double spread =
      std::max(spread_of({before.begin(), before.end()}), spread_of({after.begin(), after.end()}));
  if (!(change >= kMinShiftRatio * std::abs(shift.before)) || change < 2 * spread)
    return std::nullopt;
  const double rise = pairs_that_rise(before, after);
  if (std::max(rise, 1 - rise) < kSurePairs) return std::nullopt;
  return shift;
}

}  // namespace shanty
