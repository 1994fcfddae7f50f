#include "os/files.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace shanty {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/shanty-files-XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string directory_;
};

TEST_F(FilesTest, AtomicWriteReplacesTheWholeContentAndLeavesNoTemporary) {
  ASSERT_TRUE(write_file_atomically(path("a"), "first, longer").ok());
  ASSERT_TRUE(write_file_atomically(path("a"), "second").ok());
  EXPECT_EQ(*read_file(path("a"), 100), "second");
  EXPECT_EQ(*list_directory(directory_), std::vector<std::string>{"a"});
}

TEST_F(FilesTest, ReadRefusesFilesAboveTheLimit) {
  ASSERT_TRUE(write_file_atomically(path("big"), std::string(1000, 'x')).ok());
  const auto result = read_file(path("big"), 999);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("limit of 999 bytes"), std::string::npos);
  EXPECT_TRUE(read_file(path("big"), 1000).ok());
}

TEST_F(FilesTest, ErrorsNameThePathAndTheReason) {
  const auto result = read_file(path("missing"), 10);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "opening " + path("missing") + ": No such file or directory");
}

TEST_F(FilesTest, AppendGoesOnWhereAnEarlierWriterEnded) {
  ASSERT_TRUE(AppendFile::open(path("log"))->append("one\n").ok());
  auto file = AppendFile::open(path("log"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size_bytes(), 4U);
  ASSERT_TRUE(file->append("two\n").ok());
  EXPECT_EQ(*read_file(path("log"), 100), "one\ntwo\n");
}

TEST_F(FilesTest, LockTellsWhetherItsHolderLives) {
  EXPECT_FALSE(SharedLock::held_by_someone(path("lock")));
  {
    const auto lock = SharedLock::take(path("lock"));
    ASSERT_TRUE(lock.ok());
    EXPECT_TRUE(SharedLock::held_by_someone(path("lock")));
  }
  EXPECT_FALSE(SharedLock::held_by_someone(path("lock")));
}

}  // namespace
}  // namespace shanty
