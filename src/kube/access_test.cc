#include "kube/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace shanty::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() {
    char name[] = "/tmp/shanty-access-XXXXXX";
    root_ = ::mkdtemp(name);
    options_.env = {"HOME=" + root_};
  }
  ~AccessTest() override { std::filesystem::remove_all(root_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::string simple(const std::string& user, const std::string& cluster = "server: https://a") {
    return "current-context: x\n"
           "contexts: [{name: x, context: {cluster: c, user: u, namespace: ml}}, "
           "{name: other, context: {cluster: c, user: u}}]\n"
           "clusters: [{name: c, cluster: {" +
           cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n";
  }

  std::string error() {
    const auto access = find_access(options_);
    return access.ok() ? "no error" : access.error().message;
  }

  std::string root_;
  AccessOptions options_;
};

TEST_F(AccessTest, TakesTheFileOfHomeAndItsCurrentContext) {
  write(".kube/config", simple("token: hush"));
  const auto access = find_access(options_);
  ASSERT_TRUE(access.ok()) << access.error().message;
  EXPECT_EQ(access->context, "x");
  EXPECT_EQ(access->k8s_namespace, "ml");
  EXPECT_EQ(access->server.host, "a");
  EXPECT_EQ(access->token.reveal(), "hush");
  options_.context = "other";
  options_.k8s_namespace = "";
  EXPECT_EQ(find_access(options_)->k8s_namespace, "default");
  options_.k8s_namespace = "mine";
  EXPECT_EQ(find_access(options_)->k8s_namespace, "mine");
}

TEST_F(AccessTest, MergesTheFilesOfKubeconfigAndLeavesOutWhatIsNotThere) {
  const std::string contexts = write("1",
                                     "current-context: x\ncontexts: [{name: x, context: "
                                     "{cluster: c, user: u}}]\n");
  const std::string rest = write("2",
                                 "clusters: [{name: c, cluster: {server: 'https://b:1'}}]\n"
                                 "users: [{name: u, user: {username: me, password: hush}}]\n");
  options_.env = {"KUBECONFIG=" + contexts + ":" + root_ + "/missing::" + rest};
  const auto access = find_access(options_);
  ASSERT_TRUE(access.ok()) << access.error().message;
  EXPECT_EQ(access->server.port, 1);
  EXPECT_EQ(access->username, "me");
}

TEST_F(AccessTest, ReadsFilesBesideTheKubeconfig) {
  write("kube/ca.crt", "the authority");
  write("kube/me.crt", "the certificate");
  write("kube/me.key", "the key");
  options_.kubeconfig =
      write("kube/config", simple("client-certificate: me.crt, client-key: me.key",
                                  "server: https://a, certificate-authority: ca.crt"));
  const auto access = find_access(options_);
  ASSERT_TRUE(access.ok()) << access.error().message;
  EXPECT_EQ(access->trust.ca_pem, "the authority");
  EXPECT_EQ(access->trust.certificate_pem, "the certificate");
  EXPECT_EQ(access->trust.key_pem.reveal(), "the key");
  std::filesystem::remove(root_ + "/kube/me.key");
  EXPECT_THAT(error(), HasSubstr("me.key"));
}

TEST_F(AccessTest, FindsThePodItRunsIn) {
  options_.service_account_dir = root_ + "/sa";
  write("sa/token", "hush");
  write("sa/ca.crt", "the authority");
  write("sa/namespace", "team");
  options_.env = {"KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=6443"};
  const auto access = find_access(options_);
  ASSERT_TRUE(access.ok()) << access.error().message;
  EXPECT_EQ(access->server.host, "fd00::1");
  EXPECT_EQ(access->server.port, 6443);
  EXPECT_EQ(access->k8s_namespace, "team");
  EXPECT_EQ(access->token_file, root_ + "/sa/token");
}

TEST_F(AccessTest, TakesTheProxyOfTheClusterBeforeThatOfTheEnvironment) {
  options_.kubeconfig = write("config", simple("", "server: https://a, proxy-url: 'http://p1:1'"));
  options_.env.push_back("HTTPS_PROXY=http://p2:2");
  EXPECT_EQ(find_access(options_)->proxy->host, "p1");
  options_.kubeconfig = write("config", simple(""));
  EXPECT_EQ(find_access(options_)->proxy->host, "p2");
}

TEST_F(AccessTest, TakesNoSecretToAnOpenLine) {
  options_.kubeconfig =
      write("config", simple("token: hush, exec: {command: x}", "server: 'http://127.0.0.1:8001'"));
  const auto access = find_access(options_);
  ASSERT_TRUE(access.ok()) << access.error().message;
  EXPECT_TRUE(access->token.empty());
  EXPECT_FALSE(access->exec);
}

TEST_F(AccessTest, SaysWhatIsMissing) {
  EXPECT_THAT(error(), HasSubstr("there is no kubeconfig"));
  options_.kubeconfig = root_ + "/none";
  EXPECT_THAT(error(), HasSubstr("/none"));
  options_.kubeconfig = write("config", simple(""));
  options_.context = "othr";
  EXPECT_THAT(error(), HasSubstr("did you mean \"other\"?"));
  options_.context = "";
  options_.kubeconfig = write("config", "contexts: []\n");
  EXPECT_THAT(error(), HasSubstr("no current-context"));
  options_.kubeconfig =
      write("config", "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]");
  EXPECT_THAT(error(), HasSubstr("no cluster \"c\""));
  options_.kubeconfig = write("config", simple("", "server: 'ftp://x:1'"));
  EXPECT_THAT(error(), HasSubstr("expected https"));
  options_.kubeconfig = write("config", simple("", "server: ''"));
  EXPECT_THAT(error(), HasSubstr("has no server"));
}

TEST_F(AccessTest, RefusesWhatKubernetesGaveUpAndWhatContradictsItself) {
  options_.kubeconfig = write("config", simple("auth-provider: {name: gcp, config: {t: hush}}"));
  EXPECT_THAT(error(), HasSubstr("gcp"));
  EXPECT_THAT(error(), Not(HasSubstr("hush")));
  options_.kubeconfig = write(
      "config", simple("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"));
  EXPECT_THAT(error(), HasSubstr("v1alpha1"));
  options_.kubeconfig = write("config", simple("",
                                               "server: https://a, insecure-skip-tls-verify: "
                                               "true, certificate-authority-data: Y2E="));
  EXPECT_THAT(error(), HasSubstr("remove one"));
}

}  // namespace
}  // namespace shanty::kube
