#include "kube/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kube/rfc3339.h"
#include "os/files.h"
#include "os/process.h"

namespace shanty::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SetClock : public Clock {
 public:
  TimePoint now() const override { return {now_ns}; }
  int64_t unix_time_ns() const override { return now_ns; }
  int64_t now_ns = 1'800'000'000'000'000'000;  // 2027-01-15T08:00:00Z
};

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    char name[] = "/tmp/shanty-credentials-XXXXXX";
    root_ = ::mkdtemp(name);
    access_.env = current_environment();
    access_.user = "u";
  }
  ~CredentialsTest() override { std::filesystem::remove_all(root_); }

  // A plugin that prints `status` and notes each call in the file "calls".
  void use_plugin(const std::string& status,
                  const std::string& version = "client.authentication.k8s.io/v1") {
    const std::string script = root_ + "/plugin";
    std::ofstream(script) << "#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO $PROFILE $1\" >> " << root_
                          << "/calls\ncat <<'X'\n{\"apiVersion\": \"" << version
                          << "\", \"kind\": \"ExecCredential\", \"status\": " << status << "}\nX\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    access_.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                              .command = script,
                              .args = {"eu"},
                              .env = {{"PROFILE", "dev"}},
                              .install_hint = "install it",
                              .interactive_mode = "Never"};
  }

  int calls() {
    std::ifstream file(root_ + "/calls");
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

  std::string authorization(Credentials& credentials) {
    const auto headers = credentials.headers();
    if (!headers.ok()) return headers.error().message;
    return std::string(net::find_header(*headers, "Authorization"));
  }

  std::string root_;
  Access access_;
  SetClock clock_;
};

TEST_F(CredentialsTest, CarryTokenBasicAndImpersonation) {
  Credentials nobody(access_, clock_);
  EXPECT_TRUE(nobody.headers()->empty());
  access_.username = "me";
  access_.password = SecretText("hush");
  access_.impersonate = {
      .user = "boss", .uid = "7", .groups = {"a", "b"}, .extra = {{"acme.com/team", "x"}}};
  Credentials basic(access_, clock_);
  EXPECT_EQ(authorization(basic), "Basic bWU6aHVzaA==");
  const auto headers = basic.headers();
  ASSERT_EQ(headers->size(), 6U);
  EXPECT_EQ(headers->at(2).name, "Impersonate-Uid");
  EXPECT_EQ(headers->at(5).name, "Impersonate-Extra-acme.com%2Fteam");
  access_.token = SecretText("token\n");
  Credentials token(access_, clock_);
  EXPECT_EQ(authorization(token), "Bearer token");
  EXPECT_FALSE(token.renew());
}

TEST_F(CredentialsTest, ReadATokenFileAnewAfterAMinuteOrARefusal) {
  access_.token_file = root_ + "/token";
  std::ofstream(access_.token_file) << "one\n";
  Credentials credentials(access_, clock_);
  EXPECT_EQ(authorization(credentials), "Bearer one");
  std::ofstream(access_.token_file) << "two\n";
  EXPECT_EQ(authorization(credentials), "Bearer one");
  clock_.now_ns += 61'000'000'000;
  EXPECT_EQ(authorization(credentials), "Bearer two");
  std::ofstream(access_.token_file) << "three\n";
  EXPECT_TRUE(credentials.renew());
  EXPECT_EQ(authorization(credentials), "Bearer three");
  std::ofstream(access_.token_file) << "\n";
  credentials.renew();
  EXPECT_THAT(authorization(credentials), HasSubstr("is empty"));
}

TEST_F(CredentialsTest, RunThePluginOnceUntilItsTokenIsAboutToExpire) {
  use_plugin(R"({"token": "t", "expirationTimestamp": "2027-01-15T08:10:00Z"})");
  Credentials credentials(access_, clock_);
  EXPECT_EQ(authorization(credentials), "Bearer t");
  EXPECT_EQ(authorization(credentials), "Bearer t");
  EXPECT_EQ(calls(), 1);
  clock_.now_ns += 595'000'000'000;
  EXPECT_EQ(authorization(credentials), "Bearer t");
  EXPECT_EQ(calls(), 2);
  const auto info = read_file(root_ + "/calls", 10'000);
  EXPECT_THAT(*info, HasSubstr("\"kind\":\"ExecCredential\""));
  EXPECT_THAT(*info, HasSubstr("\"interactive\":false"));
  EXPECT_THAT(*info, HasSubstr(" dev eu\n"));
}

TEST_F(CredentialsTest, TellThePluginOfTheClusterWhereItAsks) {
  use_plugin(R"({"token": "t"})");
  access_.exec->provide_cluster_info = true;
  access_.server = *net::parse_url("https://10.0.0.1:6443");
  access_.trust.ca_pem = "ca";
  EXPECT_THAT(exec_info(access_, false), HasSubstr("\"server\":\"https://10.0.0.1:6443\""));
  EXPECT_THAT(exec_info(access_, false), HasSubstr("\"certificate-authority-data\":\"Y2E=\""));
}

TEST_F(CredentialsTest, HandThePluginsCertificateOn) {
  use_plugin(R"({"clientCertificateData": "CERT", "clientKeyData": "KEY"})");
  Credentials credentials(access_, clock_);
  ASSERT_TRUE(credentials.headers().ok());
  uint64_t generation = 0;
  EXPECT_EQ(credentials.trust(generation).certificate_pem, "CERT");
  EXPECT_EQ(generation, 1U);
}

TEST_F(CredentialsTest, SayWhatIsWrongWithThePluginAndShowNothingOfIt) {
  const char* bad[] = {
      R"({})",
      R"({"token": ""})",
      R"({"clientCertificateData": "hush"})",
      R"({"token": "hush", "expirationTimestamp": "tomorrow"})",
      R"("hush")",
      R"({"token": "hush" nonsense)",
  };
  for (const char* status : bad) {
    use_plugin(status);
    Credentials credentials(access_, clock_);
    EXPECT_THAT(authorization(credentials), HasSubstr("getting credentials for user \"u\""));
    EXPECT_THAT(authorization(credentials), Not(HasSubstr("hush")));
  }
  use_plugin(R"({"token": "hush"})", "client.authentication.k8s.io/v1beta1");
  Credentials other_version(access_, clock_);
  EXPECT_THAT(authorization(other_version), HasSubstr("another version"));
  access_.exec->command = root_ + "/missing";
  Credentials missing(access_, clock_);
  EXPECT_THAT(authorization(missing), HasSubstr("install it"));
  access_.exec->command = "/bin/false";
  Credentials failing(access_, clock_);
  EXPECT_THAT(authorization(failing), HasSubstr("exit code 1"));
}

TEST(Rfc3339, IsReadWithFractionsAndOffsets) {
  EXPECT_EQ(parse_rfc3339_s("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(parse_rfc3339_s("1970-01-01T01:00:00.123456+01:00"), 0);
  EXPECT_EQ(parse_rfc3339_s("1970-01-01T00:00:00-00:30"), 1800);
  for (const char* bad : {"", "tomorrow", "1970-13-01T00:00:00Z", "1970-01-01T24:00:00Z",
                          "1970-01-01T00:00:00", "1970-01-01T00:00:00+1", "1970-02-30T00:00:00Z"}) {
    EXPECT_FALSE(parse_rfc3339_s(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace shanty::kube
