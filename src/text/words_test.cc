#include "text/words.h"

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

}  // namespace
}  // namespace shanty
