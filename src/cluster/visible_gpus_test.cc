#include "cluster/visible_gpus.h"

#include <gtest/gtest.h>

namespace shanty {
namespace {

TEST(VisibleGpus, AreAllWhereNothingIsSaid) { EXPECT_EQ(visible_gpus(8, nullptr), 8u); }

TEST(VisibleGpus, AreThoseThatAreNamed) {
  EXPECT_EQ(visible_gpus(8, "0,1"), 2u);
  EXPECT_EQ(visible_gpus(8, "7"), 1u);
  EXPECT_EQ(visible_gpus(8, " 3, 5 "), 2u);
  EXPECT_EQ(visible_gpus(8, "GPU-8932f937,GPU-aa"), 2u);
  EXPECT_EQ(visible_gpus(1, "MIG-1,MIG-2,MIG-3"), 3u);
}

TEST(VisibleGpus, EndAtTheFirstEntryThatNamesNone) {
  EXPECT_EQ(visible_gpus(8, ""), 0u);
  EXPECT_EQ(visible_gpus(8, "-1"), 0u);
  EXPECT_EQ(visible_gpus(8, "0,-1,1"), 1u);
  EXPECT_EQ(visible_gpus(8, "0,8,1"), 1u);
  EXPECT_EQ(visible_gpus(8, "0,,1"), 1u);
  EXPECT_EQ(visible_gpus(8, "none"), 0u);
  EXPECT_EQ(visible_gpus(8, "99999999999999999999999"), 0u);
}

TEST(VisibleGpus, AreNoneWhereOneIsNamedTwice) { EXPECT_EQ(visible_gpus(8, "0,1,0"), 0u); }

TEST(VisibleGpus, AreNoneWhereThereAreNone) { EXPECT_EQ(visible_gpus(0, "0,1"), 0u); }

}  // namespace
}  // namespace shanty
