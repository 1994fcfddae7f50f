#include "ckpt/memory_room.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::ckpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MemoryRoom : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "memory-room-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/proc");
    std::ofstream(root_ + "/proc/meminfo") << "MemAvailable: 1000 kB\n";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_;
};

TEST_F(MemoryRoom, WhatIsPromisedToOneIsNotPromisedToAnother) {
  auto first = MemoryPromise::make(600 << 10, "a", root_);
  ASSERT_TRUE(first.ok());
  const auto second = MemoryPromise::make(600 << 10, "making slots", root_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message,
              AllOf(HasSubstr("making slots: "), HasSubstr("/proc/meminfo leaves "),
                    HasSubstr("promised to others")));
  // The kernel counts what is present.
  first->use(500 << 10);
  EXPECT_TRUE(MemoryPromise::make(600 << 10, "a", root_).ok());
}

TEST_F(MemoryRoom, AnUnusedPromiseEndsWithItsOwner) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(MemoryPromise::make(900 << 10, "a", root_).ok());
}

TEST_F(MemoryRoom, NothingKnownIsNoLimit) {
  std::filesystem::remove(root_ + "/proc/meminfo");
  EXPECT_TRUE(MemoryPromise::make(uint64_t{1} << 50, "a", root_).ok());
}

}  // namespace
}  // namespace shanty::ckpt
