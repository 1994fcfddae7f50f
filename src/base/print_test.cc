#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

TEST(Print, DropsWhatCannotBeWrittenAndThrowsNothing) {
  const File full(std::fopen("/dev/full", "w"), std::fclose);
  ASSERT_NE(full, nullptr);
  std::setvbuf(full.get(), nullptr, _IONBF, 0);
  EXPECT_NO_THROW(fmt::print(full.get(), "{} words\n", 3));
  EXPECT_NE(std::ferror(full.get()), 0);
}

TEST(Print, WritesWhatCanBe) {
  char bytes[64] = {};
  const File file(fmemopen(bytes, sizeof bytes, "w"), std::fclose);
  ASSERT_NE(file, nullptr);
  fmt::print(file.get(), "{}-{:02}", "a", 7);
  std::fflush(file.get());
  EXPECT_EQ(std::string(bytes), "a-07");
}

}  // namespace
