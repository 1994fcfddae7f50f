#include "ckpt/numbers.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

namespace shanty::ckpt {
namespace {

template <typename T>
double read(const char* dtype, T bits) {
  char bytes[sizeof bits];
  std::memcpy(bytes, &bits, sizeof bits);
  return number_reader(dtype)(bytes);
}

TEST(Numbers, ReadsEveryKindOfFloat) {
  EXPECT_EQ(read("F32", 1.5F), 1.5);
  EXPECT_EQ(read("F64", -2.25), -2.25);
  EXPECT_EQ(read("BF16", uint16_t{0x3FC0}), 1.5);
  EXPECT_EQ(read("F16", uint16_t{0x3E00}), 1.5);
  EXPECT_EQ(read("F16", uint16_t{0x0001}), std::ldexp(1, -24));
  EXPECT_TRUE(std::isinf(read("F16", uint16_t{0x7C00})));
  EXPECT_EQ(read("F8_E4M3", uint8_t{0x7E}), 448);
  EXPECT_TRUE(std::isnan(read("F8_E4M3", uint8_t{0xFF})));
  EXPECT_EQ(read("F8_E5M2", uint8_t{0x7B}), 57344);
  EXPECT_EQ(read("F8_E5M2", uint8_t{0xC0}), -2);
}

TEST(Numbers, ReadsIntegersAndRefusesWhatIsNone) {
  EXPECT_EQ(read("I64", int64_t{-7}), -7);
  EXPECT_EQ(read("U8", uint8_t{200}), 200);
  EXPECT_EQ(read("BOOL", uint8_t{1}), 1);
  EXPECT_EQ(number_reader("C64"), nullptr);
  EXPECT_EQ(number_reader("whatever"), nullptr);
}

}  // namespace
}  // namespace shanty::ckpt
