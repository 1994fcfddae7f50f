#include "logs/stamp.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace shanty {
namespace {

constexpr int64_t kAround = 1'764'417'600'000'000'000;  // 2025-11-29T12:00:00Z

std::string read(std::string_view text) {
  const auto when = parse_stamp(text, kAround);
  return when ? format_utc(*when) : "none";
}

TEST(Stamp, ReadsWhatLogsWrite) {
  EXPECT_EQ(read("2025-11-29T10:04:05.123456Z"), "2025-11-29T10:04:05.123Z");
  EXPECT_EQ(read("2025-11-29 10:04:05,123"), "2025-11-29T10:04:05.123Z");
  EXPECT_EQ(read("2025-11-29T18:04:05.5+08:00"), "2025-11-29T10:04:05.500Z");
  EXPECT_EQ(read("2025-11-29_10:04:05"), "2025-11-29T10:04:05.000Z");
  EXPECT_EQ(read("2025/11/29 10:04:05"), "2025-11-29T10:04:05.000Z");
  EXPECT_EQ(read("29/Nov/2025:10:04:05"), "2025-11-29T10:04:05.000Z");
  EXPECT_EQ(read("1764410645"), "2025-11-29T10:04:05.000Z");
  EXPECT_EQ(read("1764410645.25"), "2025-11-29T10:04:05.250Z");
  EXPECT_EQ(read("1764410645123"), "2025-11-29T10:04:05.123Z");
}

TEST(Stamp, GuessesTheYearAndReadsMonthsWithoutTheirZero) {
  EXPECT_EQ(read("1129 10:04:05.123456"), "2025-11-29T10:04:05.123Z");
  EXPECT_EQ(read("419 13:27:42.301344821"), "2025-04-19T13:27:42.301Z");
  EXPECT_EQ(read("Nov 29 10:04:05"), "2025-11-29T10:04:05.000Z");
  EXPECT_EQ(read("Dec  6 10:04:05"), "2024-12-06T10:04:05.000Z");
}

TEST(Stamp, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "1", "2025-13-01T00:00:00", "2025-11-29", "Foo 12 10:00:00", "9999999999999999999999",
        "9999999999999999999", "9999999999999", "9999999999", "12:00", "1332 10:04:05"}) {
    EXPECT_EQ(read(text), "none") << text;
  }
}

}  // namespace
}  // namespace shanty
