#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

namespace shanty {
namespace {

constexpr size_t kMaxUnitTextBytes = 64;
constexpr double kMaxDurationS = 100.0 * 365.0 * 86400.0;
constexpr double kTwoTo63 = 9223372036854775808.0;

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr Unit kByteUnits[] = {
    {"", 1},
    {"Ki", kKi},
    {"Mi", kKi* kKi},
    {"Gi", kKi* kKi* kKi},
    {"Ti", kKi* kKi* kKi* kKi},
    {"k", 1e3},
    {"K", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"P", 1e15},
    {"Pi", kKi* kKi* kKi* kKi* kKi},
};
constexpr Unit kDurationUnits[] = {
    {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},     {"sec", 1},    {"m", 60},
    {"min", 60},  {"h", 3600},  {"d", 86400}, {"w", 604800},
};
constexpr Unit kCountUnits[] = {
    {"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12},
};

struct Number {
  double value = 0;
  std::string_view rest;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Error bad(std::string_view text, std::string_view expected) {
  constexpr size_t kShownBytes = 40;
  const bool cut = text.size() > kShownBytes;
  return Error{fmt::format("expected {}, found \"{}{}\"", expected, text.substr(0, kShownBytes),
                           cut ? "..." : "")};
}

// The bytes of `text` that belong to a number: digits with single underscores between them, one
// point, an exponent that is followed by digits.
size_t number_length(std::string_view text) {
  size_t i = 0;
  bool point = false;
  while (i < text.size()) {
    const bool digit_before = i > 0 && is_digit(text[i - 1]);
    const bool digit_after = i + 1 < text.size() && is_digit(text[i + 1]);
    if (text[i] == '_' && !(digit_before && digit_after)) break;
    if (text[i] == '.' && point) break;
    if (!is_digit(text[i]) && text[i] != '_' && text[i] != '.') break;
    point = point || text[i] == '.';
    ++i;
  }
  if (i == 0 || i >= text.size() || (text[i] != 'e' && text[i] != 'E')) return i;
  size_t digits = i + 1;
  if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
  size_t end = digits;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end > digits ? end : i;
}

// Reads the number in front. Nothing of `text` is read when it does not start with a digit, so
// signs, "inf" and "nan" are refused here.
std::optional<Number> leading_number(std::string_view text) {
  if (text.size() > kMaxUnitTextBytes) return std::nullopt;
  if (text.empty() || !(is_digit(text.front()) || text.front() == '.')) return std::nullopt;
  const size_t length = number_length(text);
  std::string digits;
  for (char c : text.substr(0, length)) {
    if (c != '_') digits += c;
  }
  Number number;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number.value);
  if (error == std::errc::result_out_of_range && digits.find("e-") == std::string::npos &&
      digits.find("E-") == std::string::npos) {
    number.value = std::numeric_limits<double>::infinity();
  } else if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  number.rest = trim(text.substr(length));
  return number;
}

std::optional<double> factor_of(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.factor;
  }
  return std::nullopt;
}

// All-digit byte counts are kept exact where a double would round.
std::optional<uint64_t> exact_integer(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct RateUnit {
  double factor;
  std::string_view rest;
};

// "G", "Gi", "" in front of B or bit, with what follows it.
RateUnit rate_prefix(std::string_view unit) {
  if (unit.size() >= 2 && unit[1] == 'i' && unit.substr(1, 2) != "it") {
    const std::string name = {unit[0] == 'k' ? 'K' : unit[0], 'i'};
    if (auto factor = factor_of(kByteUnits, name)) return {*factor, unit.substr(2)};
  }
  if (!unit.empty()) {
    const std::string name(1, unit[0] == 'g' ? 'G' : unit[0] == 'm' ? 'M' : unit[0]);
    if (auto factor = factor_of(kByteUnits, name)) return {*factor, unit.substr(1)};
  }
  return {1, unit};
}

std::optional<double> rate_factor(std::string_view unit) {
  if (unit.empty()) return 1;
  const RateUnit prefix = rate_prefix(unit);
  if (prefix.rest == "B/s" || prefix.rest == "Bps") return prefix.factor;
  for (std::string_view bits : {"bit/s", "bits/s", "b/s", "bps"}) {
    if (prefix.rest == bits) return prefix.factor / 8;
  }
  return std::nullopt;
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view raw) {
  constexpr std::string_view kExpected = "a size such as 512, 64MB or 16Gi";
  const std::string_view text = trim(raw);
  const auto number = leading_number(text);
  if (!number) return bad(text, kExpected);
  std::string_view unit = number->rest;
  if (!unit.empty() && unit.back() == 'B') unit.remove_suffix(1);
  const auto factor = factor_of(kByteUnits, unit);
  if (!factor) return bad(text, kExpected);
  const double bytes = number->value * *factor;
  if (bytes >= kTwoTo63) return bad(text, "a size below 2^63 bytes");
  if (const auto exact = exact_integer(text)) return *exact;
  if (std::floor(bytes) != bytes) return bad(text, "a whole number of bytes");
  return static_cast<uint64_t>(bytes);
}

Result<double> parse_duration_s(std::string_view raw) {
  constexpr std::string_view kExpected = "a duration such as 90, 30s, 15m, 1h30m or 2d";
  const std::string_view text = trim(raw);
  auto number = leading_number(text);
  if (!number) return bad(text, kExpected);
  double total_s = number->rest.empty() ? number->value : 0;
  while (number && !number->rest.empty()) {
    size_t length = 0;
    while (length < number->rest.size() && number->rest[length] >= 'a') ++length;
    const auto factor = factor_of(kDurationUnits, number->rest.substr(0, length));
    if (!factor) return bad(text, kExpected);
    total_s += number->value * *factor;
    const std::string_view rest = trim(number->rest.substr(length));
    if (rest.empty()) break;
    number = leading_number(rest);
    if (!number || number->rest.empty()) return bad(text, kExpected);
  }
  if (!(total_s <= kMaxDurationS)) return bad(text, "a duration of at most 100 years");
  return total_s;
}

Result<double> parse_bandwidth_bytes_per_s(std::string_view raw) {
  constexpr std::string_view kExpected = "a bandwidth such as 100GB/s, 25Gbit/s or 200Gbps";
  const std::string_view text = trim(raw);
  const auto number = leading_number(text);
  if (!number) return bad(text, kExpected);
  const auto factor = rate_factor(number->rest);
  if (!factor) return bad(text, kExpected);
  const double rate = number->value * *factor;
  if (rate >= kTwoTo63) return bad(text, "a bandwidth below 2^63 bytes per second");
  return rate;
}

Result<double> parse_number(std::string_view raw) {
  constexpr std::string_view kExpected = "a number such as 32, 0.1, 2e9, 350M or 7B";
  const std::string_view text = trim(raw);
  const auto number = leading_number(text);
  if (!number) return bad(text, kExpected);
  const auto factor = factor_of(kCountUnits, number->rest);
  if (!factor) return bad(text, kExpected);
  const double value = number->value * *factor;
  if (!std::isfinite(value)) return bad(text, "a number below 1e308");
  return value;
}

Result<double> parse_percent(std::string_view raw) {
  constexpr std::string_view kExpected = "a percentage from 0% to 100%";
  const std::string_view text = trim(raw);
  const auto number = leading_number(text);
  if (!number || number->rest != "%" || number->value > 100) return bad(text, kExpected);
  return number->value / 100;
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 0) return "-" + format_duration(-seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0.0009995) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.00995 ? 1 : 0);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole_s = static_cast<uint64_t>(std::llround(std::min(seconds, kTwoTo63 / 2)));
  if (whole_s < 3600) return fmt::format("{} min {:02} s", whole_s / 60, whole_s % 60);
  const uint64_t minutes = (whole_s + 30) / 60;
  if (minutes < 48 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  const uint64_t hours = (minutes + 30) / 60;
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

std::string format_count(double value) {
  constexpr std::array<std::string_view, 4> kNames = {"M", "B", "T", "Q"};
  if (!std::isfinite(value)) return "-";
  if (value < 0) return "-" + format_count(-value);
  if (value < 1000 && std::floor(value) != value) return fmt::format("{:.3g}", value);
  if (value < 999999.5) {
    const auto whole = static_cast<uint64_t>(std::llround(value));
    if (whole < 1000) return fmt::format("{}", whole);
    return fmt::format("{},{:03}", whole / 1000, whole % 1000);
  }
  double scaled = value / 1e6;
  size_t unit = 0;
  while (scaled >= 999.5 && unit + 1 < kNames.size()) {
    scaled /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", scaled, scaled < 99.95 ? 1 : 0, kNames[unit]);
}

}  // namespace shanty
