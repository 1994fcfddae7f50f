#include "run/json_file.h"

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "os/files.h"

namespace shanty {
namespace {

class JsonFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/shanty-json-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/some.json";
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(directory_).ok()); }

  std::string error_for(std::string_view content, size_t limit_bytes = 1000) {
    EXPECT_TRUE(replace_file(path_, content).ok());
    const auto read = read_json_file(path_, 2, limit_bytes);
    return read.ok() ? "" : read.error().message;
  }

  std::string directory_, path_;
};

TEST_F(JsonFile, IsReadWhenItIsAnObjectOfTheFormat) {
  ASSERT_TRUE(replace_file(path_, R"({"format":2,"x":"y"})").ok());
  const auto read = read_json_file(path_, 2, 1000);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)["x"], "y");
}

TEST_F(JsonFile, ErrorsNameThePathAndWhatIsWrong) {
  for (const char* bad : {"", "{", "[2]", "2", "null", "\"format\"", "{\"format\":2", "{\xff}"}) {
    EXPECT_EQ(error_for(bad), "reading " + path_ + ": not a JSON object") << bad;
  }
  for (const char* other : {"{}", R"({"format":3})", R"({"format":"2"})", R"({"format":2.5})"}) {
    EXPECT_EQ(error_for(other), "reading " + path_ + ": of a format this shanty does not know")
        << other;
  }
  EXPECT_EQ(error_for(std::string(1000, '[')), "reading " + path_ + ": not a JSON object");
  const std::string too_long = error_for(R"({"format":2,"x":"y"})", 19);
  EXPECT_NE(too_long.find(path_), std::string::npos) << too_long;
}

TEST_F(JsonFile, AMissingOneIsAnErrorThatNamesIt) {
  const auto read = read_json_file(path_, 2, 1000);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find(path_), std::string::npos) << read.error().message;
}

}  // namespace
}  // namespace shanty
