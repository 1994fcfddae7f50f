#include "net/proxy_choice.h"

#include <gtest/gtest.h>

namespace shanty::net {
namespace {

TEST(ProxyChoice, ReadsHttpAndSocksProxies) {
  EXPECT_EQ(parse_proxy("http://me:x@proxy:3128")->port, 3128);
  EXPECT_EQ(parse_proxy("proxy:3128")->host, "proxy");
  EXPECT_EQ(parse_proxy("socks5://localhost:1080")->kind, HttpProxy::Kind::kSocks5);
  EXPECT_FALSE(parse_proxy("https://proxy:3128").ok());
}

TEST(ProxyChoice, LeavesOutWhatNoProxyNames) {
  EXPECT_TRUE(is_exempt("a.example, b.example", "b.example", 443));
  EXPECT_TRUE(is_exempt("example", "api.example", 443));
  EXPECT_TRUE(is_exempt(".example", "api.example", 443));
  EXPECT_TRUE(is_exempt("*.example", "api.example", 443));
  EXPECT_FALSE(is_exempt("ample", "example", 443));
  EXPECT_TRUE(is_exempt("10.0.0.0/8", "10.1.2.3", 443));
  EXPECT_FALSE(is_exempt("10.0.0.0/16", "10.1.2.3", 443));
  EXPECT_TRUE(is_exempt("fd00::/8", "fd12::1", 443));
  EXPECT_TRUE(is_exempt("api.example:6443", "api.example", 6443));
  EXPECT_FALSE(is_exempt("api.example:6443", "api.example", 443));
  EXPECT_TRUE(is_exempt("*", "anything", 1));
  EXPECT_FALSE(is_exempt(" , ,", "anything", 1));
}

TEST(ProxyChoice, FollowsTheEnvironmentButNotForThisMachine) {
  const std::vector<std::string> env = {"https_proxy=http://proxy:1", "NO_PROXY=inside"};
  EXPECT_EQ((*proxy_of_environment(env, *parse_url("https://outside")))->host, "proxy");
  EXPECT_FALSE(proxy_of_environment(env, *parse_url("https://inside"))->has_value());
  EXPECT_FALSE(proxy_of_environment(env, *parse_url("http://outside"))->has_value());
  EXPECT_FALSE(proxy_of_environment(env, *parse_url("https://127.0.0.1:6443"))->has_value());
  EXPECT_FALSE(proxy_of_environment(env, *parse_url("https://localhost:6443"))->has_value());
}

}  // namespace
}  // namespace shanty::net
