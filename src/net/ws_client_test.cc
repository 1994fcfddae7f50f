#include "net/ws_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <thread>
#include <vector>

#include "net/address.h"
#include "net/test_support.h"

namespace shanty::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ClientTest : public testing::TestWithParam<bool> {
 protected:
  void serve(uint16_t port = 0) {
    server = std::make_unique<TestServer>(io, WsServer::Options{.port = port, .tls = GetParam()});
  }

  WsClient::Options options() const {
    WsClient::Options options;
    options.port = server ? server->server->port() : uint16_t{0};
    options.tls = GetParam();
    return options;
  }

  bool until(const std::function<bool()>& done) { return run_until(io, done); }

  boost::asio::io_context io;
  std::unique_ptr<TestServer> server;
};

INSTANTIATE_TEST_SUITE_P(Plain, ClientTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Tls, ClientTest, testing::Values(true));

TEST_P(ClientTest, MessagesArriveInOrderBothWays) {
  serve();
  TestClient client(io, options());
  ASSERT_TRUE(until([&] { return client.opened == 1; }));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(client.client->send(std::to_string(i)));
  ASSERT_TRUE(until([&] { return client.messages.size() == 1000; }));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.messages[i], std::to_string(i));
}

TEST_P(ClientTest, BothEndsKnowTheAddresses) {
  serve();
  TestClient client(io, options());
  EXPECT_EQ(client.client->local_address(), "");
  ASSERT_TRUE(until([&] { return client.opened == 1 && !server->opened.empty(); }));
  EXPECT_EQ(client.client->local_address(), "127.0.0.1");
  EXPECT_EQ(server->peer_address, "127.0.0.1");
}

TEST_P(ClientTest, WhatIsSentWithoutAConnectionIsGone) {
  serve();
  TestClient client(io, options());
  EXPECT_FALSE(client.client->send("early"));
  ASSERT_TRUE(until([&] { return client.opened == 1; }));
  EXPECT_TRUE(client.client->send("late"));
  ASSERT_TRUE(until([&] { return client.messages.size() == 1; }));
  EXPECT_THAT(client.messages, ElementsAre("late"));
}

TEST_P(ClientTest, WaitsForAServerThatStartsLater) {
  auto reserved = reserve_port();
  ASSERT_TRUE(reserved.ok());
  WsClient::Options late = options();
  late.port = reserved->port;
  late.host = "localhost";
  TestClient client(io, late);
  ASSERT_TRUE(until([&] { return !client.client->last_error().empty(); }));
  EXPECT_THAT(client.client->last_error(), HasSubstr("Connection refused"));
  EXPECT_TRUE(client.rejected.empty());
  serve(reserved->port);
  EXPECT_TRUE(until([&] { return client.opened == 1; }));
  EXPECT_EQ(client.client->last_error(), "");
}

TEST_P(ClientTest, ComesBackToAServerThatWasKilledAndStartedAgain) {
  serve();
  const uint16_t port = server->server->port();
  TestClient client(io, options());
  for (int life = 1; life <= 3; ++life) {
    ASSERT_TRUE(until([&] { return client.opened == life; }));
    server.reset();
    ASSERT_TRUE(until([&] { return client.closed.size() == static_cast<size_t>(life); }));
    EXPECT_FALSE(client.client->connected());
    serve(port);
  }
}

TEST_P(ClientTest, AServerThatClosesGivesItsReason) {
  serve();
  TestClient client(io, options());
  ASSERT_TRUE(until([&] { return client.opened == 1 && server->opened.size() == 1; }));
  const ConnId id = server->opened[0];
  server->server->send(id, "last words");
  server->server->close(id, "another agent took this place");
  ASSERT_TRUE(until([&] { return client.closed.size() == 1 && server->closed.size() == 1; }));
  EXPECT_THAT(client.messages, ElementsAre("last words"));
  EXPECT_EQ(client.closed[0], "closed by the other end: another agent took this place");
  EXPECT_EQ(server->closed[id], "another agent took this place");
}

TEST_P(ClientTest, StopSendsWhatIsQueued) {
  serve();
  TestClient client(io, options());
  ASSERT_TRUE(until([&] { return client.opened == 1; }));
  const std::string large(3 << 20, 'x');
  EXPECT_TRUE(client.client->send(large));
  EXPECT_TRUE(client.client->send("goodbye"));
  bool stopped = false;
  client.client->stop([&] { stopped = true; });
  EXPECT_FALSE(client.client->send("too late"));
  ASSERT_TRUE(until([&] { return stopped && server->closed.size() == 1; }));
  const auto& got = server->messages[server->opened[0]];
  ASSERT_EQ(got.size(), 2u);
  EXPECT_TRUE(got[0] == large);
  EXPECT_EQ(got[1], "goodbye");
  EXPECT_TRUE(client.closed.empty());
}

TEST_P(ClientTest, StopEndsInTimeWithAServerThatDoesNotAnswer) {
  serve();
  boost::asio::io_context own;
  TestClient client(own, options());
  ASSERT_TRUE(until([&] { return run_until(own, [&] { return client.opened == 1; }, 5ms); }));
  bool stopped = false;
  client.client->stop([&] { stopped = true; });  // the server's loop stands still from here
  EXPECT_TRUE(run_until(own, [&] { return stopped; }));
}

TEST_P(ClientTest, StopBeforeTheFirstConnectionEndsAtOnce) {
  auto reserved = reserve_port();
  ASSERT_TRUE(reserved.ok());
  WsClient::Options nobody = options();
  nobody.port = reserved->port;
  TestClient client(io, nobody);
  ASSERT_TRUE(until([&] { return !client.client->last_error().empty(); }));
  bool stopped = false;
  client.client->stop([&] { stopped = true; });
  EXPECT_TRUE(until([&] { return stopped; }));
}

TEST_P(ClientTest, DropForStaysAwayThatLongAndComesBack) {
  serve();
  TestClient client(io, options());
  ASSERT_TRUE(until([&] { return client.opened == 1; }));
  const auto start = std::chrono::steady_clock::now();
  client.client->drop_for(400ms);
  EXPECT_FALSE(client.client->send("x"));
  ASSERT_TRUE(until([&] { return client.closed.size() == 1 && server->closed.size() == 1; }));
  ASSERT_TRUE(until([&] { return client.opened == 2; }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 400ms);
  EXPECT_EQ(client.closed.size(), 1u);
}

TEST_P(ClientTest, HandlersMayDestroyTheirClient) {
  serve();
  std::unique_ptr<WsClient> doomed;
  int opened = 0;
  WsClient::Options given = options();
  given.host = "127.0.0.1";
  given.token = kToken;
  WsClient::Handlers handlers;
  handlers.on_open = [&] {
    ++opened;
    doomed->send("hello");
  };
  handlers.on_message = [&](std::string_view) { doomed.reset(); };
  doomed = std::make_unique<WsClient>(io, given, std::move(handlers));
  doomed->start();
  ASSERT_TRUE(until([&] { return opened == 1 && doomed == nullptr; }));
  EXPECT_TRUE(until([&] { return server->closed.size() == 1; }));
}

TEST_P(ClientTest, HandlersMayDestroyTheirServer) {
  std::unique_ptr<WsServer> doomed;
  WsServer::Handlers handlers;
  handlers.on_message = [&](ConnId, std::string_view) { doomed.reset(); };
  auto listening = WsServer::listen(io, {.host = "127.0.0.1", .token = kToken, .tls = GetParam()},
                                    std::move(handlers));
  ASSERT_TRUE(listening.ok());
  doomed = std::move(listening).value();
  WsClient::Options given = options();
  given.port = doomed->port();
  TestClient client(io, given);
  ASSERT_TRUE(until([&] { return client.opened == 1; }));
  client.client->send("the end");
  ASSERT_TRUE(until([&] { return doomed == nullptr && client.closed.size() == 1; }));
}

TEST_P(ClientTest, ServerStopSaysGoodbyeToAll) {
  serve();
  TestClient a(io, options());
  TestClient b(io, options());
  ASSERT_TRUE(until([&] { return server->opened.size() == 2 && a.opened + b.opened == 2; }));
  bool stopped = false;
  server->server->stop([&] { stopped = true; });
  ASSERT_TRUE(until([&] { return stopped && a.closed.size() == 1 && b.closed.size() == 1; }));
  EXPECT_EQ(a.closed[0], "closed by the other end: the coordinator stops");
  EXPECT_TRUE(server->closed.empty());
}

std::vector<int> inheritable_descriptors() {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) found.push_back(fd);
  }
  return found;
}

TEST_P(ClientTest, NoSocketIsInheritedByAnotherProgram) {
  const auto before = inheritable_descriptors();
  serve();
  TestClient client(io, options());
  ASSERT_TRUE(until([&] { return client.opened == 1; }));
  EXPECT_EQ(inheritable_descriptors(), before);
}

// What listen(2) below is to do.
std::atomic<int> refused_listens = 0;        // so many are refused, as by another that was faster
std::atomic<int> meet_before_listening = 0;  // so many wait until all of them have bound

TEST(WsServer, ASecondServerOnThePortIsToldSo) {
  boost::asio::io_context io;
  TestServer first(io, {});
  bool in_use = false;
  const auto second = WsServer::listen(
      io, {.host = "127.0.0.1", .port = first.server->port(), .token = kToken}, {}, &in_use);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(in_use);
  EXPECT_THAT(second.error().message, HasSubstr("cannot listen on 127.0.0.1:"));
}

TEST(WsServer, OneThatWasRefusedOnlyWhenItListenedTriesAgain) {
  boost::asio::io_context io;
  refused_listens = 2;
  const auto server = WsServer::listen(io, {.host = "127.0.0.1", .token = kToken}, {});
  EXPECT_TRUE(server.ok()) << server.error().message;
  EXPECT_EQ(refused_listens, 0);
}

TEST(WsServer, OneThatIsRefusedWheneverItListensIsToldSo) {
  boost::asio::io_context io;
  bool in_use = false;
  refused_listens = 1'000'000;
  const auto server = WsServer::listen(io, {.host = "127.0.0.1", .token = kToken}, {}, &in_use);
  refused_listens = 0;
  EXPECT_FALSE(server.ok());
  EXPECT_TRUE(in_use);
}

TEST(WsServer, OfSeveralThatStartAtOnceExactlyOneHasThePort) {
  constexpr int kRounds = 200;
  constexpr int kServers = 2;
  uint16_t port = 0;
  {
    boost::asio::io_context io;
    port = TestServer(io, {}).server->port();
  }
  for (int round = 0; round < kRounds; ++round) {
    meet_before_listening = kServers;
    std::barrier end(kServers);
    std::atomic<int> listening = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kServers; ++i) {
      threads.emplace_back([&] {
        boost::asio::io_context io;
        const auto server =
            WsServer::listen(io, {.host = "127.0.0.1", .port = port, .token = kToken}, {});
        if (server.ok()) ++listening;
        end.arrive_and_wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(listening, 1) << "round " << round;
  }
}

TEST(WsServer, AnUnknownHostIsAnErrorAndNotInUse) {
  boost::asio::io_context io;
  bool in_use = true;
  const auto server =
      WsServer::listen(io, {.host = "no-such-host.invalid", .token = kToken}, {}, &in_use);
  ASSERT_FALSE(server.ok());
  EXPECT_FALSE(in_use);
}

TEST(WsServer, TheEmptyHostIsAllInterfacesOfBothFamilies) {
  boost::asio::io_context io;
  std::vector<std::string> peers;
  WsServer::Handlers handlers;
  handlers.on_open = [&](ConnId, const std::string& peer) { peers.push_back(peer); };
  auto server = WsServer::listen(io, {.token = kToken}, std::move(handlers));
  ASSERT_TRUE(server.ok()) << server.error().message;
  WsClient::Options options;
  options.port = (*server)->port();
  TestClient v4(io, options);
  ASSERT_TRUE(run_until(io, [&] { return peers.size() == 1; }));
  EXPECT_EQ(peers[0], "127.0.0.1");
  if (!is_local_address("::1")) GTEST_SKIP() << "no IPv6 here";
  options.host = "::1";
  TestClient v6(io, options);
  ASSERT_TRUE(run_until(io, [&] { return peers.size() == 2; }));
  EXPECT_EQ(peers[1], "::1");
}

}  // namespace
}  // namespace shanty::net

// In the C library's place for the whole of this program.
extern "C" int listen(int socket, int backlog) noexcept {
  using namespace shanty::net;
  if (refused_listens > 0) {
    --refused_listens;
    errno = EADDRINUSE;
    return -1;
  }
  if (meet_before_listening > 0) {
    --meet_before_listening;
    while (meet_before_listening > 0) std::this_thread::yield();
  }
  return static_cast<int>(syscall(SYS_listen, socket, backlog));
}
