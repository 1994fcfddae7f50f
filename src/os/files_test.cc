#include "os/files.h"

#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

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

TEST_F(FilesTest, AFailedReplacementLeavesNoTemporary) {
  ASSERT_TRUE(make_directories(path("a/full")).ok());
  EXPECT_FALSE(replace_file(path("a"), "text").ok()) << "a directory cannot be replaced";
  EXPECT_FALSE(write_file_atomically(path("a"), "text").ok());
  EXPECT_EQ(*list_directory(directory_), std::vector<std::string>{"a"});
}

TEST_F(FilesTest, WritesAllIntoAPipeThatDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  ::fcntl(read_end.get(), F_SETFL, 0);
  const std::string text(size_t{4} << 20, 'x');
  size_t taken = 0;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = ::read(read_end.get(), buffer, sizeof buffer)) > 0;) {
      taken += static_cast<size_t>(n);
    }
  });
  EXPECT_TRUE(write_all(write_end.get(), text).ok());
  write_end.reset();
  reader.join();
  EXPECT_EQ(taken, text.size());
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
