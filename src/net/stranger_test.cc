#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/random.h"
#include "net/test_support.h"

// What a stranger can do to others: nothing. Each test runs with and without TLS, next to a client
// that knows the token and must not notice.

namespace shanty::net {
namespace {

using testing::HasSubstr;

std::string random_bytes(size_t size, uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
  return bytes;
}

class StrangerTest : public testing::TestWithParam<bool> {
 protected:
  void serve(WsServer::Options options = {}) {
    options.tls = GetParam();
    server = std::make_unique<TestServer>(io, options);
    port = server->server->port();
    friendly = join();
    ASSERT_TRUE(run_until(io, [&] { return friendly->opened == 1; }));
    rejected_before = server->server->rejected();
  }

  std::unique_ptr<TestClient> join(std::string token = kToken) {
    WsClient::Options options;
    options.port = port;
    options.tls = GetParam();
    return std::make_unique<TestClient>(io, options, std::move(token));
  }

  // The friendly client is still connected, was never disconnected and gets its echo.
  void expect_undisturbed() {
    const size_t before = friendly->messages.size();
    EXPECT_TRUE(friendly->client->send("still there?"));
    EXPECT_TRUE(run_until(io, [&] { return friendly->messages.size() > before; }));
    EXPECT_EQ(friendly->opened, 1);
    EXPECT_TRUE(friendly->closed.empty());
    EXPECT_EQ(server->opened.size(), 1u);
  }

  // Since the friendly client has come in, which on a busy machine may take it several tries.
  void expect_rejected(uint64_t count) {
    const uint64_t all = rejected_before + count;
    run_until(io, [&] { return server->server->rejected() >= all; });
    EXPECT_EQ(server->server->rejected(), all);
  }

  boost::asio::io_context io;
  std::unique_ptr<TestServer> server;
  std::unique_ptr<TestClient> friendly;
  uint16_t port = 0;
  uint64_t rejected_before = 0;
};

INSTANTIATE_TEST_SUITE_P(Plain, StrangerTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Tls, StrangerTest, testing::Values(true));

TEST_P(StrangerTest, GarbageIsTurnedAway) {
  serve();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Stranger stranger(port);
    // A plain server waits for the end of a line or of a header that never comes.
    stranger.send(random_bytes(20000, seed) + "\r\n\r\n");
    EXPECT_TRUE(run_until(io, [&] { return stranger.closed(); })) << "seed " << seed;
  }
  expect_rejected(50);
  expect_undisturbed();
}

TEST_P(StrangerTest, SilenceIsTurnedAwayAfterTheHandshakeLimit) {
  serve({.handshake_limit = 1s});
  Stranger stranger(port);
  EXPECT_TRUE(run_until(io, [&] { return stranger.closed(); }));
  expect_rejected(1);
  expect_undisturbed();
}

TEST_P(StrangerTest, HalfAHandshakeIsTurnedAwayAfterTheLimit) {
  serve({.handshake_limit = 1s});
  Stranger stranger(port);
  const std::string client_hello_start("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  stranger.send(GetParam() ? client_hello_start : "GET / HTTP/1.1\r\nHost: a\r\n");
  EXPECT_TRUE(run_until(io, [&] { return stranger.closed(); }));
  expect_undisturbed();
}

TEST_P(StrangerTest, AHandshakeDribbledByteByByteEndsAtTheLimitToo) {
  serve({.handshake_limit = 1s});
  Stranger stranger(port);
  const std::string start = GetParam() ? std::string("\x16\x03\x01\x3f\xff\x01", 6) : "GET /";
  stranger.send(start);
  EXPECT_TRUE(run_until(io, [&] { return stranger.send("a") == 0 || stranger.closed(); }));
  expect_undisturbed();
}

TEST_P(StrangerTest, AHugeHeaderIsCutOff) {
  serve({.handshake_limit = 60s});
  Stranger stranger(port);
  size_t sent = stranger.send("GET / HTTP/1.1\r\n");
  const std::string line = "X-Padding: " + std::string(1000, 'x') + "\r\n";
  const bool gone = run_until(io, [&] {
    const size_t size = stranger.send(line);
    sent += size;
    return stranger.closed();
  });
  EXPECT_TRUE(gone);
  expect_rejected(1);
  expect_undisturbed();
}

TEST_P(StrangerTest, AWrongTokenIsRefusedWithOneClearSentence) {
  serve();
  auto wrong = join(kOtherToken);
  ASSERT_TRUE(run_until(io, [&] { return !wrong->rejected.empty(); }));
  EXPECT_EQ(wrong->rejected[0],
            "the coordinator at 127.0.0.1:" + std::to_string(port) +
                " refused the token: set SHANTY_TOKEN to the same secret on each node");
  EXPECT_EQ(wrong->opened, 0);
  ASSERT_TRUE(run_until(io, [&] { return !server->rejections.empty(); }));
  EXPECT_THAT(server->rejections[0], HasSubstr("token"));
  expect_undisturbed();
}

TEST_P(StrangerTest, ARefusedClientTellsItOnceAndGoesOnTryingSlowly) {
  serve();
  WsClient::Options options;
  options.port = port;
  options.tls = GetParam();
  options.rejected_backoff = 100ms;
  TestClient wrong(io, options, kOtherToken);
  ASSERT_TRUE(run_until(io, [&] { return server->server->rejected() >= 4; }));
  EXPECT_EQ(wrong.rejected.size(), 1u);
}

TEST_P(StrangerTest, AHugeMessageEndsOnlyItsSender) {
  serve({.max_message_bytes = 100000});
  auto huge = join();
  ASSERT_TRUE(run_until(io, [&] { return huge->opened == 1; }));
  EXPECT_TRUE(huge->client->send(std::string(100001, 'x')));
  ASSERT_TRUE(run_until(io, [&] { return server->closed.size() == 1; }));
  EXPECT_THAT(server->closed.begin()->second, HasSubstr("larger than 100000 bytes"));
  EXPECT_TRUE(server->messages.empty());
  huge.reset();
  server->opened.resize(1);
  expect_undisturbed();
}

TEST_P(StrangerTest, AMessageOfTheFullSizePasses) {
  serve({.max_message_bytes = 3 << 20});
  const std::string full(3 << 20, 'x');
  EXPECT_TRUE(friendly->client->send(full));
  ASSERT_TRUE(run_until(io, [&] { return friendly->messages.size() == 1; }));
  EXPECT_EQ(friendly->messages[0], full);
}

TEST_P(StrangerTest, APeerThatReadsTooSlowlyIsClosed) {
  serve({.max_queued_bytes = 8 << 20});
  boost::asio::io_context frozen;
  WsClient::Options options;
  options.port = port;
  options.tls = GetParam();
  TestClient slow(frozen, options);
  ASSERT_TRUE(run_until(io, [&] {
    return run_until(frozen, [&] { return slow.opened == 1; }, 5ms) && server->opened.size() == 2;
  }));
  const ConnId id = server->opened[1];
  int sent = 0;
  const bool closed = run_until(io, [&] {
    if (++sent < 200) server->server->send(id, std::string(1 << 20, 'x'));
    return server->closed.count(id) != 0;
  });
  ASSERT_TRUE(closed);
  EXPECT_THAT(server->closed[id], HasSubstr("reads too slowly"));
  server->opened.resize(1);
  expect_undisturbed();
}

TEST_P(StrangerTest, APeerThatSaysNothingIsClosedAfterTheIdleLimit) {
  serve({.idle_limit = 4s});  // so long does nobody else stand still
  auto silent = join();
  ASSERT_TRUE(run_until(io, [&] { return silent->opened == 1; }));
  const ConnId id = server->opened[1];
  const bool closed = run_until(io, [&] {
    friendly->client->send("tick");
    return server->closed.count(id) != 0;
  });
  ASSERT_TRUE(closed);
  EXPECT_EQ(server->closed[id], "no message in time");
  EXPECT_EQ(server->closed.size(), 1u);
}

TEST_P(StrangerTest, TenThousandConnectionsShutNobodyOut) {
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const size_t open_at_once = std::min<size_t>(10000, files.rlim_max - 600);
  serve({.max_unauthenticated = 256, .handshake_limit = 600s, .idle_limit = 600s});
  std::vector<Stranger> flood;
  flood.reserve(open_at_once);
  std::unique_ptr<TestClient> late;
  for (size_t i = 0; i < 10000; ++i) {
    if (flood.size() == open_at_once) flood.erase(flood.begin());
    flood.emplace_back(port);
    ASSERT_TRUE(flood.back().connected());
    if (i == 5000) late = join();
    io.poll();
  }
  EXPECT_TRUE(run_until(io, [&] { return server->server->rejected() == 10000 - 256; }));
  EXPECT_TRUE(run_until(io, [&] { return late->opened == 1; }));
  EXPECT_TRUE(run_until(io, [&] { return !server->rejections.empty(); }));
  EXPECT_LT(server->rejections.size(), 100u);
  late.reset();
  server->opened.resize(1);
  expect_undisturbed();
}

TEST_P(StrangerTest, RejectionsAreCountedInFull) {
  serve();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    Stranger stranger(port);
    stranger.send("nonsense\r\n\r\n");
    EXPECT_TRUE(run_until(io, [&] { return stranger.closed(); }));
  }
  EXPECT_TRUE(run_until(io, [&] { return server->rejection_count == 20; }));
  // One at once, then one after each pause, of which the first is a second and each next doubles.
  const std::chrono::duration<double> took_s = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(static_cast<double>(server->rejections.size()), 2 + std::log2(1 + took_s.count()));
}

// A scan of ports that goes on for days leaves a word a minute.
TEST_P(StrangerTest, RejectionsAreToldEverMoreSeldom) {
  serve({.rejection_note_after = 20ms});
  const auto begin = std::chrono::steady_clock::now();
  while (server->rejections.size() < 5) {
    Stranger stranger(port);
    stranger.send("nonsense\r\n\r\n");
    ASSERT_TRUE(run_until(io, [&] { return stranger.closed(); }));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, (1 + 2 + 4 + 8) * 20ms);
}

}  // namespace
}  // namespace shanty::net
