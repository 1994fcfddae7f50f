#include "agent/exit_facts.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

class FirstErrorTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    dir_ = testing::TempDir() + "/first-error-" + test.name();
    ASSERT_TRUE(remove_tree(dir_).ok() && make_directories(dir_).ok());
  }
  void TearDown() override { discard(remove_tree(dir_), "a temporary directory"); }

  void write(const std::string& name, const std::string& text) const {
    if (text.empty()) return;
    EXPECT_TRUE(replace_file(dir_ + name, text).ok());
  }
  FirstError read(const std::string& ours, const std::string& elastic = "") const {
    write("/ours", ours);
    write("/elastic", elastic);
    return read_first_error(dir_ + "/ours", dir_ + "/elastic");
  }
  std::string dir_;
};

TEST_F(FirstErrorTest, IsTheFirstLineOfOurFileWithItsTime) {
  const FirstError error = read(
      R"({"version": 1, "type": "ValueError", "message": "bad batch\nand more", "traceback": "...",)"
      R"( "time_unix_ns": 1790000000123456789, "step": 7, "pid": 3, "thread": ""})",
      R"({"message": {"message": "another", "extraInfo": {"timestamp": "5"}}})");
  EXPECT_EQ(error.text, "ValueError: bad batch");
  EXPECT_EQ(error.unix_ns, 1790000000123456789);
}

TEST_F(FirstErrorTest, IsThatOfRecordWhereThereIsNoOther) {
  const FirstError error =
      read("", R"({"message": {"message": "KeyError: 'x'", "extraInfo": {}}})");
  EXPECT_EQ(error.text, "KeyError: 'x'");
  EXPECT_EQ(error.unix_ns, 0);
}

TEST_F(FirstErrorTest, IsNoneInWhatCannotBeRead) {
  for (const char* text : {"{", "[]", "7", R"({"message": 3, "time_unix_ns": "then"})"}) {
    const FirstError error = read(text, text);
    EXPECT_EQ(error.text, "") << text;
    EXPECT_EQ(error.unix_ns, 0) << text;
  }
}

}  // namespace
}  // namespace shanty
