#include "base/hash.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(Hash, Crc32cGivesThePublishedCheckValue) { EXPECT_EQ(crc32c("123456789"), 0xe3069283U); }

TEST(Hash, Crc32cContinuesFromASeed) {
  EXPECT_EQ(crc32c("56789", 5, crc32c("1234")), crc32c("123456789"));
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
