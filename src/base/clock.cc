#include "base/clock.h"

#include <ctime>

#include <fmt/format.h>

namespace shanty {
namespace {

int64_t read_clock(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return {read_clock(CLOCK_MONOTONIC)}; }
  int64_t unix_time_ns() const override { return read_clock(CLOCK_REALTIME); }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

std::string format_utc(int64_t unix_time_ns) {
  const time_t seconds = unix_time_ns / 1'000'000'000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     unix_time_ns / 1'000'000 % 1000);
}

std::string format_local_time_of_day(int64_t unix_time_ns) {
  const time_t seconds = unix_time_ns / 1'000'000'000;
  tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace shanty
