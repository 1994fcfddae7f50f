#include "net/url.h"

#include <gtest/gtest.h>

namespace shanty::net {
namespace {

TEST(Url, HasSchemeHostPortAndPath) {
  const auto url = parse_url("HTTPS://10.0.0.1:6443/k8s/clusters/c-1/");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "10.0.0.1");
  EXPECT_EQ(url->port, 6443);
  EXPECT_EQ(url->path, "/k8s/clusters/c-1");
  EXPECT_EQ(parse_url("https://[::1]")->host, "::1");
  EXPECT_EQ(parse_url("https://api.example.com")->port, 443);
  EXPECT_EQ(parse_url("socks5://localhost")->port, 1080);
}

TEST(Url, KeepsAUserOutOfItsErrors) {
  const auto url = parse_url("http://me:p%40ss@proxy.example:3128");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->user_info.reveal(), "me:p@ss");
  EXPECT_EQ(url->host, "proxy.example");
  for (const char* bad : {"http://me:hush%@proxy:1", "http://me:hush@proxy:port", "me:hush@proxy",
                          "http://me:hush@proxy:1/?q", "http://me:hush@ho st"}) {
    const auto refused = parse_url(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().message.find("hush"), std::string::npos) << refused.error().message;
  }
}

TEST(Url, EscapesWhatAPathCannotCarry) {
  EXPECT_EQ(percent_encode("a b/c=d,ü"), "a%20b%2Fc%3Dd%2C%C3%BC");
  EXPECT_EQ(percent_encode("a-b.c_d~9"), "a-b.c_d~9");
}

}  // namespace
}  // namespace shanty::net
