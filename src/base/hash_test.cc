#include "base/hash.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(Hash, Crc32cGivesThePublishedCheckValue) { EXPECT_EQ(crc32c("123456789"), 0xe3069283U); }

TEST(Hash, Crc32cContinuesFromASeed) {
  EXPECT_EQ(crc32c("56789", 5, crc32c("1234")), crc32c("123456789"));
}

uint32_t crc32c_by(internal::Crc32cWay way, std::string_view bytes, uint32_t seed) {
  return ~way(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), ~seed);
}

// Each byte of it by itself, which no size of block can do better or worse.
uint32_t crc32c_byte_by_byte(std::string_view bytes, uint32_t seed) {
  uint32_t crc = seed;
  for (const char& byte : bytes) crc = crc32c(&byte, 1, crc);
  return crc;
}

TEST(Hash, Crc32cIsTheSameByAnyInstructionsInAnyNumberOfBlocks) {
  const auto ways = internal::crc32c_ways();
  std::string bytes(40'000, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  for (const size_t size : {0UL, 1UL, 7UL, 127UL, 128UL, 255UL, 256UL, 257UL, 384UL, 12'289UL,
                            24'576UL, 36'871UL, 39'000UL}) {
    for (const size_t begin : {0UL, 1UL, 5UL}) {
      const std::string_view part = std::string_view(bytes).substr(begin, size);
      const auto seed = static_cast<uint32_t>(size * 2654435761U);
      for (size_t way = 0; way < ways.size(); ++way) {
        EXPECT_EQ(crc32c_by(ways[way], part, seed), crc32c_byte_by_byte(part, seed))
            << "way " << way << ", " << begin << "+" << size;
      }
    }
  }
}

TEST(Hash, Sha256AndHmacGiveTheirPublishedVectors) {
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Hash, ConstantTimeComparisonTellsLengthsApart) {
  EXPECT_TRUE(equal_constant_time("token", "token"));
  EXPECT_FALSE(equal_constant_time("token", "toke"));
  EXPECT_FALSE(equal_constant_time("token", "tokem"));
}

}  // namespace
}  // namespace shanty
