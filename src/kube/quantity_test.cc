#include "kube/quantity.h"

#include <gtest/gtest.h>

namespace shanty::kube {
namespace {

TEST(Quantity, ReadsAllForms) {
  EXPECT_EQ(parse_quantity("8"), 8);
  EXPECT_EQ(parse_quantity("64Gi"), int64_t{64} << 30);
  EXPECT_EQ(parse_quantity("1.5Gi"), (int64_t{3} << 30) / 2);
  EXPECT_EQ(parse_quantity("100M"), 100'000'000);
  EXPECT_EQ(parse_quantity("2e3"), 2000);
  EXPECT_EQ(parse_quantity("2E3"), 2000);
  EXPECT_EQ(parse_quantity("2E"), 2'000'000'000'000'000'000);
  EXPECT_EQ(parse_quantity("123e-1"), 13);
  EXPECT_EQ(parse_quantity("128974848000m"), 128974848);
  EXPECT_EQ(parse_quantity(".5"), 1);
  EXPECT_EQ(parse_quantity("-2Ki"), -2048);
  EXPECT_EQ(parse_quantity_milli("500m"), 500);
  EXPECT_EQ(parse_quantity_milli("0.1"), 100);
  EXPECT_EQ(parse_quantity_milli("96"), 96'000);
  EXPECT_EQ(parse_quantity_milli("100u"), 1);
  EXPECT_EQ(parse_quantity("0"), 0);
}

TEST(Quantity, RefusesOtherText) {
  for (const char* bad : {"", "x", "1x", "1.2.3", "Gi", "1 Gi", "1gi", "e3", "1e", "1e99",
                          "99999999999999999999999999", "9999999999Ei", "--1", "1e-99"}) {
    EXPECT_FALSE(parse_quantity(bad).has_value()) << bad;
  }
  EXPECT_FALSE(parse_quantity_milli("9E").has_value());
}

}  // namespace
}  // namespace shanty::kube
