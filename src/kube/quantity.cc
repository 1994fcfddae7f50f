#include "kube/quantity.h"

#include <charconv>
#include <limits>

namespace shanty::kube {
namespace {

using Wide = __int128;

constexpr size_t kMaxDigits = 18;
constexpr long double kMaxProduct = 1e38L;  // of what is multiplied below
constexpr int kMaxExponent = 18;
constexpr Wide kLargest = std::numeric_limits<int64_t>::max();

struct Suffix {
  std::string_view text;
  int64_t factor;
  int64_t divisor;
};
constexpr Suffix kSuffixes[] = {
    {"", 1, 1},
    {"n", 1, 1'000'000'000},
    {"u", 1, 1'000'000},
    {"m", 1, 1000},
    {"k", 1000, 1},
    {"M", 1'000'000, 1},
    {"G", 1'000'000'000, 1},
    {"T", 1'000'000'000'000, 1},
    {"P", 1'000'000'000'000'000, 1},
    {"E", 1'000'000'000'000'000'000, 1},
    {"Ki", int64_t{1} << 10, 1},
    {"Mi", int64_t{1} << 20, 1},
    {"Gi", int64_t{1} << 30, 1},
    {"Ti", int64_t{1} << 40, 1},
    {"Pi", int64_t{1} << 50, 1},
    {"Ei", int64_t{1} << 60, 1},
};

Wide power_of_ten(int exponent) {
  Wide value = 1;
  for (int i = 0; i < exponent; ++i) value *= 10;
  return value;
}

// The quantity times `scale`, rounded away from zero.
std::optional<int64_t> scaled(std::string_view text, int64_t scale) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  Wide digits = 0;
  int decimals = 0;
  size_t count = 0;
  bool in_decimals = false;
  while (!text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'))) {
    if (text[0] == '.') {
      if (in_decimals) return std::nullopt;
      in_decimals = true;
    } else {
      if (++count > kMaxDigits) return std::nullopt;
      digits = digits * 10 + (text[0] - '0');
      if (in_decimals) ++decimals;
    }
    text.remove_prefix(1);
  }
  if (count == 0) return std::nullopt;
  Wide factor = 1;
  Wide divisor = power_of_ten(decimals);
  if (text.size() > 1 && (text[0] == 'e' || text[0] == 'E')) {
    int exponent = 0;
    text.remove_prefix(text[1] == '+' ? 2 : 1);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), exponent);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    if (!whole || exponent > kMaxExponent || exponent < -kMaxExponent) return std::nullopt;
    (exponent < 0 ? divisor : factor) *= power_of_ten(exponent < 0 ? -exponent : exponent);
  } else {
    bool known = false;
    for (const Suffix& suffix : kSuffixes) {
      if (suffix.text != text) continue;
      factor = suffix.factor;
      divisor *= suffix.divisor;
      known = true;
    }
    if (!known) return std::nullopt;
  }
  const auto product = static_cast<long double>(digits) * static_cast<long double>(factor);
  if (product * static_cast<long double>(scale) > kMaxProduct) return std::nullopt;
  const Wide value = (digits * factor * scale + divisor - 1) / divisor;
  if (value > kLargest) return std::nullopt;
  return static_cast<int64_t>(negative ? -value : value);
}

}  // namespace

std::optional<int64_t> parse_quantity(std::string_view text) { return scaled(text, 1); }
std::optional<int64_t> parse_quantity_milli(std::string_view text) { return scaled(text, 1000); }

}  // namespace shanty::kube
