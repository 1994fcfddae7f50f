#include "base/units.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::HasSubstr;

TEST(Units, BytesKnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("16Gi").value(), 16ull << 30);
  EXPECT_EQ(parse_bytes("16GiB").value(), 16ull << 30);
  EXPECT_EQ(parse_bytes("64 MB").value(), 64'000'000u);
  EXPECT_EQ(parse_bytes("1.5e9").value(), 1'500'000'000u);
  EXPECT_EQ(parse_bytes("1.5Ki").value(), 1536u);
  EXPECT_EQ(parse_bytes("512").value(), 512u);
  EXPECT_EQ(parse_bytes("1_024").value(), 1024u);
  EXPECT_EQ(parse_bytes("2P").value(), 2'000'000'000'000'000u);
}

TEST(Units, BytesKeepsLargeIntegersExact) {
  EXPECT_EQ(parse_bytes("9007199254740993").value(), 9007199254740993ull);
}

TEST(Units, BytesRefusesWhatIsNoSize) {
  for (const char* text : {"", "-1", "Gi", "16Gx", "nan", "inf", "0x10", "1..5", "1__0", "_1",
                           "9223372036854775808", "1e400", "0.3", "5%", "1 2", "1e", "++1"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
  EXPECT_FALSE(parse_bytes(std::string(1000, '9')).ok());
}

TEST(Units, DurationAddsItsParts) {
  EXPECT_DOUBLE_EQ(parse_duration_s("1h").value(), 3600);
  EXPECT_DOUBLE_EQ(parse_duration_s("1h30m").value(), 5400);
  EXPECT_DOUBLE_EQ(parse_duration_s("1h 30m 5s").value(), 5405);
  EXPECT_DOUBLE_EQ(parse_duration_s("250ms").value(), 0.25);
  EXPECT_DOUBLE_EQ(parse_duration_s("2d").value(), 172800);
  EXPECT_DOUBLE_EQ(parse_duration_s("90").value(), 90);
  EXPECT_DOUBLE_EQ(parse_duration_s("0.5").value(), 0.5);
  EXPECT_DOUBLE_EQ(parse_duration_s("15 min").value(), 900);
}

TEST(Units, DurationRefusesNonsense) {
  for (const char* text : {"", "-1s", "1x", "h", "1h30", "1 h m", "nan", "1e300d", "101 w x"}) {
    EXPECT_FALSE(parse_duration_s(text).ok()) << text;
  }
}

TEST(Units, BandwidthTellsBitsFromBytes) {
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("100GB/s").value(), 100e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("25Gbit/s").value(), 25e9 / 8);
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("200Gbps").value(), 25e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("10 Gb/s").value(), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("1 GiB/s").value(), 1073741824.0);
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("8bit/s").value(), 1);
  EXPECT_DOUBLE_EQ(parse_bandwidth_bytes_per_s("1e9").value(), 1e9);
  EXPECT_FALSE(parse_bandwidth_bytes_per_s("100GB").ok());
  EXPECT_FALSE(parse_bandwidth_bytes_per_s("-1GB/s").ok());
}

TEST(Units, NumberKnowsCounts) {
  EXPECT_DOUBLE_EQ(parse_number("2e9").value(), 2e9);
  EXPECT_DOUBLE_EQ(parse_number("7B").value(), 7e9);
  EXPECT_DOUBLE_EQ(parse_number("350M").value(), 350e6);
  EXPECT_DOUBLE_EQ(parse_number("1_000").value(), 1000);
  EXPECT_DOUBLE_EQ(parse_number(".5").value(), 0.5);
  EXPECT_DOUBLE_EQ(parse_number("1e-4").value(), 1e-4);
  for (const char* text : {"1e400", "-1", ".nan", "NaN", ".inf", ".", "1e", "e5", "7 B B"}) {
    EXPECT_FALSE(parse_number(text).ok()) << text;
  }
}

TEST(Units, PercentIsAShare) {
  EXPECT_DOUBLE_EQ(parse_percent("5%").value(), 0.05);
  EXPECT_DOUBLE_EQ(parse_percent("100 %").value(), 1);
  EXPECT_FALSE(parse_percent("5").ok());
  EXPECT_FALSE(parse_percent("101%").ok());
}

TEST(Units, ErrorsNameWhatWasExpectedAndFound) {
  const std::string message = parse_bytes("16Gx").error().message;
  EXPECT_THAT(message, HasSubstr("16Gi"));
  EXPECT_THAT(message, HasSubstr("\"16Gx\""));
}

TEST(Units, FormatsForReaders) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(16ull << 30), "16.0 GiB");
  EXPECT_EQ(format_bytes(1048575), "1.0 MiB");
  EXPECT_EQ(format_duration(0.85), "850 ms");
  EXPECT_EQ(format_duration(0.0025), "2.5 ms");
  EXPECT_EQ(format_duration(3.2), "3.2 s");
  EXPECT_EQ(format_duration(59.97), "1 min 00 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
  EXPECT_EQ(format_duration(5 * 86400 + 3600), "5 d 01 h");
  EXPECT_EQ(format_count(2e9), "2.0 B");
  EXPECT_EQ(format_count(350e6), "350 M");
  EXPECT_EQ(format_count(1234), "1,234");
  EXPECT_EQ(format_count(999999.6), "1.0 M");
  EXPECT_EQ(format_count(0.25), "0.25");
}

}  // namespace
}  // namespace shanty
