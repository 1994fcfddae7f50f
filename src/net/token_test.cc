#include "net/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "net/test_support.h"
#include "net/token_keeper.h"
#include "os/files.h"

namespace shanty::net {
namespace {

using testing::HasSubstr;

class TokenTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("SHANTY_TOKEN");
    unsetenv("SHANTY_TOKEN_FILE");
    char name[] = "/tmp/shanty-token-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root = name;
  }
  void TearDown() override {
    unsetenv("SHANTY_TOKEN");
    unsetenv("SHANTY_TOKEN_FILE");
    ASSERT_TRUE(remove_tree(root).ok());
  }

  TokenQuery query(std::string rdzv_id = "job") const {
    return {.endpoint_host = "node0",
            .port = 29400,
            .rdzv_id = std::move(rdzv_id),
            .state_dir = root + "/state"};
  }
  std::string only_file() const {
    const auto names = list_directory(root + "/state/tokens");
    EXPECT_TRUE(names.ok());
    EXPECT_EQ(names->size(), 1u);
    return root + "/state/tokens/" + names->at(0);
  }

  std::string root;
};

TEST_F(TokenTest, TheSameJobGetsTheSameTokenAndOthersAnother) {
  const auto first = job_token(query());
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->size(), 64u);
  EXPECT_EQ(*job_token(query()), *first);
  EXPECT_NE(*job_token(query("other")), *first);
  TokenQuery upper = query();
  upper.endpoint_host = "NODE0";
  EXPECT_EQ(*job_token(upper), *first);
}

TEST_F(TokenTest, NamesThatLookAlikeAfterCleaningStayApart) {
  const std::string longer(500, 'x');
  EXPECT_NE(*job_token(query("a/b")), *job_token(query("a_b")));
  EXPECT_NE(*job_token(query(longer + "1")), *job_token(query(longer + "2")));
  EXPECT_TRUE(job_token(query("../../../../etc/passwd")).ok());
  EXPECT_EQ(list_directory(root)->size(), 1u);
}

TEST_F(TokenTest, TheFileIsPrivate) {
  umask(0);
  ASSERT_TRUE(job_token(query()).ok());
  umask(022);
  struct stat info = {};
  ASSERT_EQ(stat(only_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0600});
  ASSERT_EQ(stat((root + "/state/tokens").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0700});
}

TEST_F(TokenTest, RacingCallersAgree) {
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> got(8);
    std::vector<std::thread> callers;
    for (auto& token : got) {
      callers.emplace_back([&token, this, round] {
        const auto result = job_token(query(std::to_string(round)));
        token = result.ok() ? *result : "error: " + result.error().message;
      });
    }
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(std::set<std::string>(got.begin(), got.end()).size(), 1u) << got[0] << " " << got[1];
    EXPECT_EQ(got[0].size(), 64u) << got[0];
  }
}

TEST_F(TokenTest, AFileThatOthersCanReadIsRefused) {
  ASSERT_TRUE(job_token(query()).ok());
  for (const mode_t mode : {0640, 0604, 0660, 0602}) {
    ASSERT_EQ(chmod(only_file().c_str(), mode), 0);
    const auto result = job_token(query());
    ASSERT_FALSE(result.ok()) << mode;
    EXPECT_THAT(result.error().message, HasSubstr("open to other users"));
  }
}

TEST_F(TokenTest, AFileOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  ASSERT_TRUE(job_token(query()).ok());
  ASSERT_EQ(chown(only_file().c_str(), 12345, 12345), 0);
  const auto result = job_token(query());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("belongs to another user"));
}

TEST_F(TokenTest, ALinkOrAFolderInItsPlaceIsRefused) {
  ASSERT_TRUE(job_token(query()).ok());
  const std::string path = only_file();
  ASSERT_EQ(rename(path.c_str(), (root + "/elsewhere").c_str()), 0);
  ASSERT_EQ(symlink((root + "/elsewhere").c_str(), path.c_str()), 0);
  EXPECT_FALSE(job_token(query()).ok());
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_FALSE(job_token(query()).ok());
}

TEST_F(TokenTest, ADirectoryThatOthersCanWriteIsRefused) {
  ASSERT_TRUE(job_token(query()).ok());
  ASSERT_EQ(chmod((root + "/state/tokens").c_str(), 0777), 0);
  EXPECT_FALSE(job_token(query()).ok());
}

TEST_F(TokenTest, ADamagedFileIsAnErrorThatNamesIt) {
  ASSERT_TRUE(job_token(query()).ok());
  const std::string path = only_file();
  ASSERT_EQ(truncate(path.c_str(), 3), 0);
  const auto result = job_token(query());
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr(path));
}

TEST_F(TokenTest, FilesNobodyAskedForInAWeekAreRemoved) {
  ASSERT_TRUE(job_token(query("old")).ok());
  const std::string old = only_file();
  timeval eight_days_ago[2] = {{time(nullptr) - 8 * 86400, 0}, {time(nullptr) - 8 * 86400, 0}};
  ASSERT_EQ(utimes(old.c_str(), eight_days_ago), 0);
  const std::string before = *job_token(query("old"));  // asked for: fresh again
  ASSERT_TRUE(job_token(query("new")).ok());
  EXPECT_EQ(*job_token(query("old")), before);
  ASSERT_EQ(utimes(old.c_str(), eight_days_ago), 0);
  ASSERT_TRUE(job_token(query("new")).ok());
  EXPECT_FALSE(file_exists(old));
}

TEST_F(TokenTest, AKeptFileOutlivesTheWeek) {
  const std::string token = *job_token(query("long"));
  const std::string path = only_file();
  timeval eight_days_ago[2] = {{time(nullptr) - 8 * 86400, 0}, {time(nullptr) - 8 * 86400, 0}};
  ASSERT_EQ(utimes(path.c_str(), eight_days_ago), 0);
  const auto is_fresh = [&] {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0 && time(nullptr) - info.st_mtime < 3600;
  };
  ASSERT_FALSE(is_fresh());
  boost::asio::io_context io;
  TokenKeeper keeper(io);
  keeper.start(query("long"), 1ms);
  EXPECT_TRUE(run_until(io, is_fresh));
  ASSERT_EQ(utimes(path.c_str(), eight_days_ago), 0);
  EXPECT_TRUE(run_until(io, is_fresh));  // and again
  keeper.stop();
  EXPECT_TRUE(run_until(io, [&] { return io.stopped(); }));
  ASSERT_TRUE(job_token(query("new")).ok());
  EXPECT_EQ(*job_token(query("long")), token);
}

TEST_F(TokenTest, KeepingMakesNoFile) {
  touch_token(query());
  EXPECT_FALSE(file_exists(root + "/state"));
}

TEST_F(TokenTest, TheEnvironmentGoesFirst) {
  setenv("SHANTY_TOKEN", "a-secret-of-our-own", 1);
  EXPECT_EQ(*job_token(query()), "a-secret-of-our-own");
  EXPECT_FALSE(file_exists(root + "/state"));
}

TEST_F(TokenTest, AWeakOrOddEnvironmentIsAnErrorWithoutTheSecret) {
  for (const char* bad : {"", "fifteen-letters", "a secret with spaces", "line\nbreak-in-the-token",
                          "caf\xc3\xa9-au-lait-du-matin"}) {
    setenv("SHANTY_TOKEN", bad, 1);
    const auto result = job_token(query());
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_THAT(result.error().message, HasSubstr("SHANTY_TOKEN"));
    EXPECT_TRUE(*bad == '\0' || result.error().message.find(bad) == std::string::npos);
  }
  setenv("SHANTY_TOKEN", std::string(kMaxTokenBytes + 1, 'x').c_str(), 1);
  EXPECT_FALSE(job_token(query()).ok());
}

TEST_F(TokenTest, AGivenFileIsReadWhoeverOwnsItAndNothingIsWritten) {
  const std::string path = root + "/secret";
  ASSERT_TRUE(write_file_atomically(path, "the-secret-of-this-job\n").ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);  // as Kubernetes mounts a Secret for a group
  setenv("SHANTY_TOKEN_FILE", path.c_str(), 1);
  EXPECT_EQ(*job_token(query()), "the-secret-of-this-job");
  EXPECT_FALSE(list_directory(root + "/state").ok());
  setenv("SHANTY_TOKEN", "a-token-in-the-environment", 1);
  EXPECT_EQ(*job_token(query()), "a-token-in-the-environment");
}

TEST_F(TokenTest, AGivenFileThatIsMissingOrTooShortIsNamed) {
  setenv("SHANTY_TOKEN_FILE", (root + "/none").c_str(), 1);
  EXPECT_THAT(job_token(query()).error().message, HasSubstr(root + "/none"));
  ASSERT_TRUE(write_file_atomically(root + "/short", "short").ok());
  setenv("SHANTY_TOKEN_FILE", (root + "/short").c_str(), 1);
  EXPECT_THAT(job_token(query()).error().message, HasSubstr("expected 16 to 1024"));
}

}  // namespace
}  // namespace shanty::net
