#include "logs/stamp.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <limits>

namespace shanty {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;
constexpr int64_t kLastUnixNs = std::numeric_limits<int64_t>::max() - kSecond;

// Eats from the front of a text.
struct Cursor {
  std::string_view rest;

  bool eat(char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  }
  size_t digits() const {
    size_t n = 0;
    while (n < rest.size() && rest[n] >= '0' && rest[n] <= '9') ++n;
    return n;
  }
  std::optional<int> number(size_t min_digits, size_t max_digits) {
    const size_t n = digits();
    if (n < min_digits || n > max_digits) return std::nullopt;
    return take(n);
  }
  int take(size_t n) {
    int value = 0;
    for (size_t i = 0; i < n; ++i) value = value * 10 + (rest[i] - '0');
    rest.remove_prefix(n);
    return value;
  }
};

struct Civil {
  int year = 0;
  int month = 0;
  int day = 0;
};

std::optional<int64_t> days_since_epoch(const Civil& c) {
  using namespace std::chrono;
  const year_month_day date{year{c.year}, month{static_cast<unsigned>(c.month)},
                            day{static_cast<unsigned>(c.day)}};
  if (!date.ok() || c.year < 1971 || c.year > 2200) return std::nullopt;
  return sys_days{date}.time_since_epoch().count();
}

// "12:00:01", any fraction after '.' or ','.
std::optional<int64_t> time_of_day(Cursor& in) {
  const auto hour = in.number(1, 2);
  if (!hour || !in.eat(':')) return std::nullopt;
  const auto minute = in.number(2, 2);
  if (!minute || !in.eat(':')) return std::nullopt;
  const auto second = in.number(2, 2);
  if (!second || *hour > 24 || *minute > 59 || *second > 60) return std::nullopt;
  int64_t ns = ((*hour * 60LL + *minute) * 60 + *second) * kSecond;
  if (in.eat('.') || in.eat(',')) {
    int64_t unit = kSecond / 10;
    while (in.digits() > 0) {
      ns += in.take(1) * unit;
      unit /= 10;
    }
  }
  return ns;
}

// "Z", "+08:00", "-0500", or nothing.
int64_t zone_offset(Cursor& in) {
  if (in.eat('Z')) return 0;
  if (in.rest.empty() || (in.rest[0] != '+' && in.rest[0] != '-')) return 0;
  const int sign = in.rest[0] == '-' ? -1 : 1;
  in.rest.remove_prefix(1);
  const auto hours = in.number(2, 4);
  if (!hours) return 0;
  int minutes = *hours > 99 ? *hours / 100 * 60 + *hours % 100 : *hours * 60;
  if (in.eat(':')) minutes += in.number(2, 2).value_or(0);
  return sign * minutes * 60 * kSecond;
}

int month_of_name(std::string_view name) {
  constexpr std::string_view kNames = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t at = name.size() >= 3 ? kNames.find(name.substr(0, 3)) : kNames.npos;
  return at == kNames.npos || at % 3 != 0 ? 0 : static_cast<int>(at / 3) + 1;
}

std::optional<int64_t> finish(const Civil& date, Cursor& in) {
  const auto days = days_since_epoch(date);
  const auto time = time_of_day(in);
  if (!days || !time) return std::nullopt;
  return *days * kDay + *time - zone_offset(in);
}

// The year that puts the time closest before, or at most a day after, the time it was met.
std::optional<int64_t> finish_without_year(int month, int day, Cursor in, int64_t around_unix_ns) {
  using namespace std::chrono;
  const auto around = floor<days>(sys_time<nanoseconds>(nanoseconds(around_unix_ns)));
  const int this_year = static_cast<int>(year_month_day{around}.year());
  for (int year = this_year + 1; year >= this_year - 1; --year) {
    Cursor again = in;
    const auto when = finish({year, month, day}, again);
    if (when && *when <= around_unix_ns + kDay) return when;
  }
  return std::nullopt;
}

std::optional<int64_t> epoch_number(Cursor in) {
  const size_t n = in.digits();
  if (n != 10 && n != 13 && n != 16 && n != 19) return std::nullopt;
  int64_t value = 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t digit = in.rest[i] - '0';
    if (value > (kLastUnixNs - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  in.rest.remove_prefix(n);
  int64_t unit = kSecond;
  for (size_t i = 10; i < n; i += 3) unit /= 1000;
  if (value > kLastUnixNs / unit) return std::nullopt;
  int64_t ns = value * unit;
  if (n == 10 && in.eat('.')) {
    int64_t step = kSecond / 10;
    while (in.digits() > 0) {
      ns += in.take(1) * step;
      step /= 10;
    }
  }
  if (!in.rest.empty()) return std::nullopt;
  return ns;
}

}  // namespace

std::optional<int64_t> parse_stamp(std::string_view text, int64_t around_unix_ns) {
  Cursor in{text};
  if (const auto epoch = epoch_number(in)) return epoch;
  if (const int month = month_of_name(text)) {  // Nov 29 12:00:01
    in.rest.remove_prefix(3);
    while (in.eat(' ')) {
    }
    const auto day = in.number(1, 2);
    while (in.eat(' ')) {
    }
    if (!day) return std::nullopt;
    return finish_without_year(month, *day, in, around_unix_ns);
  }
  const size_t n = in.digits();
  if (n == 3 || (n == 4 && in.rest.size() > 4 && in.rest[4] == ' ')) {  // glog
    const int both = in.take(n);
    if (!in.eat(' ')) return std::nullopt;
    return finish_without_year(both / 100, both % 100, in, around_unix_ns);
  }
  if (n == 2) {  // 29/Nov/2026:12:00:01
    Civil date{.year = 0, .month = 0, .day = in.take(2)};
    if (!in.eat('/')) return std::nullopt;
    date.month = month_of_name(in.rest);
    if (date.month == 0) return std::nullopt;
    in.rest.remove_prefix(3);
    const auto year = in.eat('/') ? in.number(4, 4) : std::nullopt;
    if (!year || (!in.eat(':') && !in.eat(' '))) return std::nullopt;
    date.year = *year;
    return finish(date, in);
  }
  if (n != 4) return std::nullopt;
  Civil date{.year = in.take(4), .month = 0, .day = 0};
  const bool slashes = in.eat('/');
  if (!slashes && !in.eat('-')) return std::nullopt;
  const auto month = in.number(2, 2);
  if (!month || !(slashes ? in.eat('/') : in.eat('-'))) return std::nullopt;
  const auto day = in.number(2, 2);
  if (!day || (!in.eat('T') && !in.eat(' ') && !in.eat('_'))) return std::nullopt;
  date.month = *month;
  date.day = *day;
  return finish(date, in);
}

}  // namespace shanty
