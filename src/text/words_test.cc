#include "text/words.h"

#include <vector>

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(Words, OneIsNotCountedAsSeveral) {
  EXPECT_EQ(counted(0, "pod"), "0 pods");
  EXPECT_EQ(counted(1, "pod"), "1 pod");
  EXPECT_EQ(counted(2, "pod"), "2 pods");
}

TEST(Words, OnlyTheNamedBlanksGoAndOnlyAtTheEnds) {
  EXPECT_EQ(trimmed(" \n a b\n", " \n"), "a b");
  EXPECT_EQ(trimmed("\ta ", " "), "\ta");
  EXPECT_EQ(trimmed("  ", " "), "");
  EXPECT_EQ(trimmed("", " "), "");
}

TEST(Words, NumbersOfListsAreFound) {
  const auto all = [](std::string_view list) { return numbers_in(list, 100); };
  EXPECT_EQ(all("3"), (std::vector<int>{3}));
  EXPECT_EQ(all("[0, 1, 12]"), (std::vector<int>{0, 1, 12}));
  EXPECT_EQ(all("0-2,7"), (std::vector<int>{0, 1, 2, 7}));
  EXPECT_EQ(all("-1, 4 , 6"), (std::vector<int>{4, 6}));
  EXPECT_EQ(all("5-3"), (std::vector<int>{5}));
  EXPECT_EQ(all("99999999999,8,"), (std::vector<int>{8}));
  EXPECT_TRUE(all("").empty());
  EXPECT_TRUE(all("none").empty());
  EXPECT_EQ(numbers_in("0-2147483647", 3), (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace shanty
