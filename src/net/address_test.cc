#include "net/address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "os/process.h"

namespace shanty::net {
namespace {

using testing::Contains;
using testing::HasSubstr;

HostPort split(std::string_view text) {
  const auto result = split_host_port(text, 29400);
  EXPECT_TRUE(result.ok()) << text;
  return result.ok() ? *result : HostPort{};
}

TEST(SplitHostPort, ReadsEachForm) {
  EXPECT_EQ(split("node0"), (HostPort{"node0", 29400}));
  EXPECT_EQ(split("node0:1234"), (HostPort{"node0", 1234}));
  EXPECT_EQ(split("10.0.0.1:0"), (HostPort{"10.0.0.1", 0}));
  EXPECT_EQ(split("[::1]:65535"), (HostPort{"::1", 65535}));
  EXPECT_EQ(split("[fe80::1%eth0]"), (HostPort{"fe80::1%eth0", 29400}));
  EXPECT_EQ(split("::1"), (HostPort{"::1", 29400}));
}

TEST(SplitHostPort, RefusesWhatIsNoAddress) {
  for (const char* text : {"", ":1", "a:", "a:x", "a:65536", "a:-1", "a:1x", "[::1", "[]:1",
                           "[::1]1", "a:99999999999999999999"}) {
    EXPECT_FALSE(split_host_port(text, 29400).ok()) << text;
  }
}

TEST(JoinHostPort, IsTheInverse) {
  for (const char* text : {"node0:1", "[::1]:29400", "10.0.0.1:7"}) {
    const HostPort parts = split(text);
    EXPECT_EQ(join_host_port(parts.host, parts.port), text);
  }
}

TEST(Resolve, NumericAndLocalNames) {
  const auto numeric = resolve("127.0.0.1");
  ASSERT_TRUE(numeric.ok());
  EXPECT_THAT(*numeric, testing::ElementsAre("127.0.0.1"));
  const auto name = resolve("localhost");
  ASSERT_TRUE(name.ok());
  EXPECT_THAT(*name, testing::AnyOf(Contains("127.0.0.1"), Contains("::1")));
}

TEST(Resolve, AnUnknownNameIsAnErrorThatNamesIt) {
  const auto result = resolve("no-such-host.invalid");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("no-such-host.invalid"));
  EXPECT_FALSE(resolve("").ok());
}

TEST(IsLoopback, OnlyLoopback) {
  for (const char* host :
       {"localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"10.0.0.1", "0.0.0.0", "::", "no-such-host.invalid", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
  EXPECT_FALSE(is_loopback(host_name())) << "other machines know it by another address";
}

TEST(IsLocalAddress, KnowsThisMachine) {
  EXPECT_TRUE(is_local_address("localhost"));
  EXPECT_TRUE(is_local_address("127.0.0.1"));
  EXPECT_FALSE(is_local_address("192.0.2.1"));  // reserved for documentation
  EXPECT_FALSE(is_local_address("no-such-host.invalid"));
}

// Binds and, when asked, listens as a worker does that sets SO_REUSEADDR.
bool can_listen(int family, uint16_t port) {
  const Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&v6)
                                           : reinterpret_cast<const sockaddr*>(&v4);
  const socklen_t size = family == AF_INET6 ? sizeof v6 : sizeof v4;
  return bind(socket.get(), address, size) == 0 && listen(socket.get(), 16) == 0;
}

TEST(ReservePort, AWorkerCanListenOnIt) {
  const auto reserved = reserve_port();
  ASSERT_TRUE(reserved.ok());
  ASSERT_NE(reserved->port, 0);
  EXPECT_TRUE(can_listen(AF_INET6, reserved->port) || !is_local_address("::1"));
  EXPECT_TRUE(can_listen(AF_INET, reserved->port));
  const auto v4 = reserve_ipv4_port();
  ASSERT_TRUE(v4.ok());
  EXPECT_TRUE(can_listen(AF_INET6, v4->port) || !is_local_address("::1"));
  EXPECT_TRUE(can_listen(AF_INET, v4->port));
}

TEST(ReservePort, TheKernelGivesItToNobodyElse) {
  std::vector<ReservedPort> held;
  std::set<uint16_t> ports;
  for (int i = 0; i < 2000; ++i) {
    auto reserved = i % 2 == 0 ? reserve_port() : reserve_ipv4_port();
    if (!reserved.ok()) break;  // out of descriptors
    ports.insert(reserved->port);
    held.push_back(std::move(*reserved));
  }
  EXPECT_GT(held.size(), 400u);
  EXPECT_EQ(ports.size(), held.size());
}

}  // namespace
}  // namespace shanty::net
