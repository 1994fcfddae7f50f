#include "render/local_code.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/files.h"

namespace shanty {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class LocalCodeTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/shanty-code-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root = name;
    job.run.script = "train.py";
  }
  void TearDown() override { ASSERT_TRUE(remove_tree(root).ok()); }

  void put(const std::string& path, const std::string& content) const {
    ASSERT_TRUE(write_file_atomically(root + "/" + path, content).ok());
  }
  LocalCode read() const { return read_local_code(job, root + "/job.yaml"); }

  std::string root;
  Job job;
};

TEST_F(LocalCodeTest, TakesTheScriptAndItsFilesFromBesideTheJobFile) {
  put("train.py", "print(1)\n");
  put("model.yaml", "a: 1\n");
  job.code.files = {"model.yaml"};
  const LocalCode code = read();
  ASSERT_THAT(code.files, SizeIs(2));
  EXPECT_EQ(code.files[0].path, "train.py");
  EXPECT_EQ(code.files[1].content, "a: 1\n");
  EXPECT_THAT(code.problem, IsEmpty());
}

TEST_F(LocalCodeTest, SaysWhyThereIsNone) {
  EXPECT_THAT(read().problem, HasSubstr("train.py"));
  put("train.py", std::string("a\0b", 3));
  EXPECT_THAT(read().problem, HasSubstr("not UTF-8 text"));
  put("train.py", std::string(kMaxCodeBytes / 2, 'x'));
  put("more.py", std::string(kMaxCodeBytes / 2 + 2, 'x'));
  EXPECT_THAT(read().files, SizeIs(1));
  job.code.files = {"more.py"};
  EXPECT_THAT(read().problem, HasSubstr("a ConfigMap may hold"));
  job.code.files = std::vector<std::string>(kMaxCodeFiles, "train.py");
  EXPECT_THAT(read().problem, HasSubstr("more than 200"));
  job.code.files.clear();
  for (const char* outside : {"/etc/x.py", "../x.py", "a/../../x.py"}) {
    job.run.script = outside;
    EXPECT_THAT(read().problem, HasSubstr("lies outside")) << outside;
  }
  job.run = {};
  job.run.module = "project.train";
  EXPECT_THAT(read().problem, HasSubstr("run.module"));
}

}  // namespace
}  // namespace shanty
