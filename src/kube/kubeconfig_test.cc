#include "kube/kubeconfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFull = R"(
apiVersion: v1
kind: Config
current-context: prod
clusters:
- name: c1
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority-data: Y2E=
    tls-server-name: api.example
    proxy-url: socks5://localhost:1080
- name: c2
  cluster: {server: "https://c2", insecure-skip-tls-verify: true, certificate-authority: pki/ca.crt}
users:
- name: u1
  user:
    client-certificate-data: Y2VydA==
    client-key: ../key.pem
    token: hush
    as: boss
    as-uid: "7"
    as-groups: [a]
    as-user-extra: {team: [x, y]}
- name: u2
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/login
      args: [--region, eu]
      env: [{name: PROFILE, value: dev}]
      installHint: get it from the intranet
      interactiveMode: Never
      provideClusterInfo: true
contexts:
- name: prod
  context: {cluster: c1, user: u1, namespace: ml}
- name: dev
  context: {cluster: c2, user: u2}
preferences: {}
extensions: [{name: x, extension: {y: z}}]
)";

TEST(Kubeconfig, ReadsAllItsForms) {
  const auto config = parse_kubeconfig(kFull, "/home/me/.kube/config");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->current_context, "prod");
  ASSERT_EQ(config->clusters.size(), 2U);
  EXPECT_EQ(config->clusters[0].ca_pem, "ca");
  EXPECT_EQ(config->clusters[0].tls_server_name, "api.example");
  EXPECT_EQ(config->clusters[0].proxy_url, "socks5://localhost:1080");
  EXPECT_TRUE(config->clusters[1].insecure);
  EXPECT_EQ(config->clusters[1].ca_file, "/home/me/.kube/pki/ca.crt");
  ASSERT_EQ(config->users.size(), 2U);
  EXPECT_EQ(config->users[0].certificate_pem, "cert");
  EXPECT_EQ(config->users[0].key_file, "/home/me/.kube/../key.pem");
  EXPECT_EQ(config->users[0].token.reveal(), "hush");
  EXPECT_EQ(config->users[0].impersonate.uid, "7");
  ASSERT_EQ(config->users[0].impersonate.extra.size(), 2U);
  EXPECT_EQ(config->users[0].impersonate.extra[1].second, "y");
  ASSERT_EQ(config->users[1].exec.size(), 1U);
  const ExecPlugin& exec = config->users[1].exec[0];
  EXPECT_EQ(exec.command, "/home/me/.kube/./bin/login");
  EXPECT_THAT(exec.args, ::testing::ElementsAre("--region", "eu"));
  EXPECT_EQ(exec.env[0].second, "dev");
  EXPECT_EQ(exec.interactive_mode, "Never");
  EXPECT_TRUE(exec.provide_cluster_info);
  EXPECT_EQ(config->contexts[0].k8s_namespace, "ml");
}

TEST(Kubeconfig, TakesTheFirstOfEachNameAcrossFiles) {
  auto first = parse_kubeconfig(
      "clusters: [{name: c, cluster: {server: 'https://one'}}]\ncurrent-context: a", "/1");
  auto second = parse_kubeconfig(
      "clusters: [{name: c, cluster: {server: 'https://two'}}, {name: d, cluster: {}}]\n"
      "current-context: b",
      "/2");
  ASSERT_TRUE(first.ok() && second.ok());
  merge_kubeconfig(*first, std::move(second).value());
  EXPECT_EQ(first->current_context, "a");
  ASSERT_EQ(first->clusters.size(), 2U);
  EXPECT_EQ(first->clusters[0].server, "https://one");
}

TEST(Kubeconfig, IsEmptyWhereTheFileIs) {
  EXPECT_TRUE(parse_kubeconfig("", "/x").ok());
  EXPECT_TRUE(parse_kubeconfig("# nothing\n", "/x").ok());
  EXPECT_TRUE(parse_kubeconfig("clusters: null\nusers: []\n", "/x").ok());
}

TEST(Kubeconfig, NamesThePlaceOfWhatIsWrongAndNeverAValue) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"users:\n- name: u\n  user: {client-key-data: 'hush!'}", "/x:3:"},
      {"users:\n- name: u\n  user: {token: [hush]}", "token must be text"},
      {"users: {token: hush}", "users must be a list"},
      {"clusters:\n- name: c\n  cluster: {insecure-skip-tls-verify: hush}", "true or false"},
      {"users:\n- user: {token: hush, token: hush2}", "kubeconfig"},
      {"token: 'hush\n", "kubeconfig"},
      {"- hush", "expected a mapping"},
  };
  for (const auto& each : cases) {
    const auto config = parse_kubeconfig(each.text, "/x");
    ASSERT_FALSE(config.ok()) << each.text;
    EXPECT_THAT(config.error().message, HasSubstr(each.says));
    EXPECT_THAT(config.error().message, Not(HasSubstr("hush")));
  }
}

}  // namespace
}  // namespace shanty::kube
