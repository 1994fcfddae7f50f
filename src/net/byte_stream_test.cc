#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <future>
#include <vector>

#include "net/byte_server.h"
#include "net/test_support.h"

namespace shanty::net {
namespace {

using testing::HasSubstr;

// Answers a number of 8 bytes with as many bytes.
void send_as_asked(ByteStream& stream) {
  uint64_t size = 0;
  while (stream.read(reinterpret_cast<char*>(&size), sizeof size).ok()) {
    if (!stream.write(std::string(size, 'x')).ok()) return;
  }
}

class ByteStreamTest : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }

  void serve(ByteServer::Options options = {}, ByteServer::Serve what = send_as_asked) {
    options.on_loopback = !GetParam();
    options.token = kToken;
    options.tls = GetParam();
    auto made = ByteServer::listen(std::move(options), std::move(what));
    ASSERT_TRUE(made.ok()) << made.error().message;
    server = std::move(*made);
  }

  Result<std::unique_ptr<ByteStream>> connect(const std::string& token = kToken,
                                              Duration limit = kPatience) {
    return ByteStream::connect({.host = "127.0.0.1",
                                .port = server->port(),
                                .token = token,
                                .tls = GetParam(),
                                .limit = limit});
  }

  static Status ask(ByteStream& stream, uint64_t size) {
    TRY_STATUS(stream.write({reinterpret_cast<const char*>(&size), sizeof size}));
    std::string got(size, '\0');
    TRY_STATUS(stream.read(got.data(), size));
    return got == std::string(size, 'x') ? Status() : Error{"other bytes"};
  }

  std::unique_ptr<ByteServer> server;
};

TEST_P(ByteStreamTest, BytesArriveOnSeveralConnectionsAtOnce) {
  serve();
  std::vector<std::future<Status>> asked;
  for (int i = 0; i < 8; ++i) {
    asked.push_back(std::async(std::launch::async, [this]() -> Status {
      auto stream = TRY(connect());
      for (const uint64_t size : {1U, 0U, 5'000'000U, 17U}) TRY_STATUS(ask(*stream, size));
      return Status();
    }));
  }
  for (auto& one : asked) {
    const Status status = one.get();
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
}

TEST_P(ByteStreamTest, AStrangerGetsNothing) {
  std::atomic<int> served = 0;
  serve({}, [&served](ByteStream&) { ++served; });
  auto stream = connect(kOtherToken);
  // Without TLS the end comes after the token was sent.
  char byte = 0;
  EXPECT_FALSE(stream.ok() && (*stream)->read(&byte, 1).ok());
  server.reset();
  EXPECT_EQ(served, 0);
}

TEST_P(ByteStreamTest, APeerThatMovesNothingIsGivenUp) {
  std::promise<void> go;
  serve({}, [&go](ByteStream&) { go.get_future().wait(); });
  auto stream = connect(kToken, std::chrono::seconds(5));
  ASSERT_TRUE(stream.ok());
  char byte = 0;
  const Status status = (*stream)->read(&byte, 1);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("moved nothing in time"));
  go.set_value();
}

TEST_P(ByteStreamTest, AnEndInTheMiddleIsAnError) {
  serve({}, [](ByteStream& stream) {
    const Status sent = stream.write("half");
    EXPECT_TRUE(sent.ok());
  });
  auto stream = connect();
  ASSERT_TRUE(stream.ok());
  char bytes[8];
  EXPECT_FALSE((*stream)->read(bytes, sizeof bytes).ok());
}

TEST_P(ByteStreamTest, TheServersEndDoesNotWaitForItsPeers) {
  serve();
  auto quiet = connect();
  ASSERT_TRUE(quiet.ok());
  const Stranger stranger(server->port());
  server.reset();
  char byte = 0;
  EXPECT_FALSE((*quiet)->read(&byte, 1).ok());
}

TEST_P(ByteStreamTest, StrangersWhoSayNothingKeepNobodyOut) {
  serve({.max_unproven = 4});
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(std::make_unique<Stranger>(server->port()));
  auto stream = connect();
  ASSERT_TRUE(stream.ok()) << stream.error().message;
  EXPECT_TRUE(ask(**stream, 100).ok());
}

TEST_P(ByteStreamTest, OneConnectionTooManyIsClosed) {
  serve({.max_proven = 1});
  auto first = connect();
  ASSERT_TRUE(first.ok() && ask(**first, 1).ok());
  auto second = connect();
  EXPECT_FALSE(second.ok() && ask(**second, 1).ok());
  EXPECT_TRUE(ask(**first, 1).ok());
}

INSTANTIATE_TEST_SUITE_P(Both, ByteStreamTest, testing::Values(false, true),
                         [](const auto& test) { return test.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace shanty::net
