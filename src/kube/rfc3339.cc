#include "kube/rfc3339.h"

#include <charconv>
#include <chrono>

namespace shanty::kube {
namespace {

std::optional<int> digits(std::string_view text, size_t at, size_t count) {
  int value = 0;
  if (at + count > text.size()) return std::nullopt;
  const char* begin = text.data() + at;
  const auto parsed = std::from_chars(begin, begin + count, value);
  if (parsed.ec != std::errc() || parsed.ptr != begin + count || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> parse_rfc3339_s(std::string_view text) {
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  const auto second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second || text.size() < 20) return {};
  if (text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') return {};
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  int64_t offset_s = 0;
  size_t at = 19;
  if (text[at] == '.') {
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    }
  }
  const std::string_view zone = text.substr(at);
  if (zone != "Z" && zone != "z") {
    const auto zone_hour = digits(zone, 1, 2);
    const auto zone_minute = digits(zone, 4, 2);
    if (zone.size() != 6 || !zone_hour || !zone_minute || (zone[0] != '+' && zone[0] != '-')) {
      return {};
    }
    offset_s = (zone[0] == '-' ? -60 : 60) * (*zone_hour * 60 + *zone_minute);
  }
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * 86400 + *hour * 3600 + *minute * 60 + *second - offset_s;
}

}  // namespace shanty::kube
