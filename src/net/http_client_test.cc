#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "net/http_test_server.h"

namespace shanty::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using Peer = HttpTestServer::Peer;

constexpr auto kShort = 500ms;

std::string answer(const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more +
         "\r\n" + body;
}

void echo(Peer& peer) {
  while (peer.read_request()) peer.write(answer(peer.head + peer.body));
}

std::unique_ptr<HttpClient> client_of(uint16_t port, HttpClient::Options options = {.tls = false}) {
  options.host = "127.0.0.1";
  options.port = port;
  auto client = HttpClient::create(std::move(options));
  CHECK(client.ok());
  return std::move(client).value();
}

// All limits but that of connecting are short.
HttpClient::Options impatient() {
  HttpClient::Options options{.tls = false};
  options.limits.first_byte = kShort;
  options.limits.idle = kShort;
  return options;
}

TEST(HttpClient, SendsMethodHeadersAndBodyAndKeepsTheConnection) {
  HttpTestServer server(echo);
  const auto client = client_of(server.port());
  HttpRequest request{.method = "PATCH", .target = "/a?b=c", .body = "text"};
  request.headers = {{"X-Name", "value"}};
  for (int i = 0; i < 3; ++i) {
    const HttpAnswer got = client->request(request);
    ASSERT_TRUE(got.whole()) << got.error;
    EXPECT_EQ(got.status, 200);
    EXPECT_THAT(got.body, HasSubstr("PATCH /a?b=c HTTP/1.1\r\n"));
    EXPECT_THAT(got.body, HasSubstr("X-Name: value\r\n"));
    EXPECT_THAT(got.body, HasSubstr("Host: 127.0.0.1:" + std::to_string(server.port())));
    EXPECT_THAT(got.body, Not(HasSubstr("Accept-Encoding")));
    EXPECT_TRUE(got.body.ends_with("\r\n\r\ntext"));
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, GoesToANewConnectionWhenTheKeptOneHasEnded) {
  HttpTestServer server([](Peer& peer) {
    if (peer.read_request()) peer.write(answer("ok"));
  });
  const auto client = client_of(server.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client->request({}).body, "ok");
  EXPECT_EQ(server.connections(), 3);
}

TEST(HttpClient, GivesARequestAnotherChanceWhenTheKeptConnectionEndsUnderIt) {
  std::atomic<int> requests = 0;
  HttpTestServer server([&](Peer& peer) {
    if (!peer.read_request()) return;
    peer.write(answer("ok"));
    if (requests++ == 0) peer.read_request();  // and goes without a word
  });
  const auto client = client_of(server.port());
  EXPECT_EQ(client->request({}).body, "ok");
  EXPECT_EQ(client->request({}).body, "ok");
  EXPECT_EQ(server.connections(), 2);
}

TEST(HttpClient, RefusesHeadersThatWouldBreakOutOfTheirLine) {
  HttpTestServer server(echo);
  const auto client = client_of(server.port());
  HttpRequest request;
  request.headers = {{"Authorization", "Bearer secret\r\nX-Evil: 1"}};
  const HttpAnswer got = client->request(request);
  EXPECT_EQ(got.failure, HttpFailure::kRequest);
  EXPECT_THAT(got.error, Not(HasSubstr("secret")));
  EXPECT_EQ(client->request({.target = "/a b"}).failure, HttpFailure::kRequest);
  EXPECT_EQ(server.connections(), 0);
}

TEST(HttpClient, SaysWhoDoesNotAnswer) {
  uint16_t port = 0;
  {
    HttpTestServer gone(echo);
    port = gone.port();
  }
  const HttpAnswer got = client_of(port)->request({});
  EXPECT_EQ(got.failure, HttpFailure::kConnect);
  EXPECT_FALSE(got.sent);
  EXPECT_THAT(got.error, HasSubstr("127.0.0.1:" + std::to_string(port)));
  HttpClient::Options nowhere{.host = "no-such-host.invalid", .port = 1, .tls = false};
  auto client = HttpClient::create(nowhere);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->request({}).failure, HttpFailure::kResolve);
}

TEST(HttpClient, GivesUpOnAServerThatStallsBeforeItsAnswer) {
  HttpTestServer server([](Peer& peer) {
    peer.read_request();
    peer.wait_for_end();
  });
  const HttpAnswer got = client_of(server.port(), impatient())->request({});
  EXPECT_EQ(got.failure, HttpFailure::kTimeout);
  EXPECT_TRUE(got.sent);
  EXPECT_EQ(got.status, 0);
  EXPECT_THAT(got.error, HasSubstr("within"));
}

TEST(HttpClient, GivesUpOnAHeaderThatDripsForEver) {
  HttpTestServer server([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nX: ");
    while (peer.alive()) {
      peer.write("x");
      std::this_thread::yield();
    }
  });
  HttpClient::Options options = impatient();
  options.limits.max_header_bytes = size_t{1} << 30;
  const HttpAnswer got = client_of(server.port(), options)->request({});
  EXPECT_EQ(got.failure, HttpFailure::kTimeout);
}

TEST(HttpClient, GivesUpOnABodyThatStalls) {
  HttpTestServer server([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    peer.wait_for_end();
  });
  HttpClient::Options options{.tls = false};
  options.limits.idle = kShort;
  const HttpAnswer got = client_of(server.port(), options)->request({});
  EXPECT_EQ(got.failure, HttpFailure::kTimeout);
  EXPECT_EQ(got.status, 200);
}

TEST(HttpClient, NoticesHalfAnAnswerAndGarbage) {
  const struct {
    const char* bytes;
    HttpFailure failure;
  } cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", HttpFailure::kClosed},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", HttpFailure::kClosed},
      {"HTTP/1.1 200 OK\r\nConte", HttpFailure::kClosed},
      {"", HttpFailure::kClosed},
      {"220 mail.example ESMTP\r\n", HttpFailure::kProtocol},
      {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx",
       HttpFailure::kProtocol},
  };
  for (const auto& each : cases) {
    HttpTestServer server([&](Peer& peer) {
      peer.read_request();
      peer.write(each.bytes);
    });
    const HttpAnswer got = client_of(server.port())->request({});
    EXPECT_EQ(got.failure, each.failure) << each.bytes << got.error;
  }
}

TEST(HttpClient, LimitsHeadersAndBodies) {
  HttpTestServer headers([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\n");
    while (peer.alive()) peer.write("X-Much: " + std::string(8000, 'x') + "\r\n");
  });
  EXPECT_EQ(client_of(headers.port())->request({}).failure, HttpFailure::kTooLarge);
  HttpTestServer chunks([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (peer.alive()) peer.write("1000\r\n" + std::string(4096, 'x') + "\r\n");
  });
  HttpClient::Options options{.tls = false};
  options.limits.max_body_bytes = 100'000;
  const HttpAnswer got = client_of(chunks.port(), options)->request({});
  EXPECT_EQ(got.failure, HttpFailure::kTooLarge) << got.error;
  EXPECT_LE(got.body.size(), 100'000U);
}

TEST(HttpClient, HandsAnErrorOverWithItsHeaders) {
  HttpTestServer server([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow");
  });
  HttpRequest request;
  request.on_data = [](std::string_view) { return false; };  // for 2xx alone
  const HttpAnswer got = client_of(server.port())->request(request);
  EXPECT_TRUE(got.whole());
  EXPECT_EQ(got.status, 429);
  EXPECT_EQ(find_header(got.headers, "Retry-After"), "7");
  EXPECT_EQ(got.body, "slow");
}

TEST(HttpClient, DeliversAStreamAsItComes) {
  std::promise<void> first_seen;
  HttpTestServer server([&](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    first_seen.get_future().wait();
    peer.write("6\r\nsecond\r\n0\r\n\r\n");
  });
  std::vector<std::string> pieces;
  HttpRequest request;
  request.on_data = [&](std::string_view piece) {
    if (pieces.empty()) first_seen.set_value();
    pieces.emplace_back(piece);
    return true;
  };
  const HttpAnswer got = client_of(server.port())->request(request);
  EXPECT_TRUE(got.whole()) << got.error;
  EXPECT_THAT(pieces, ::testing::ElementsAre("first", "second"));
}

TEST(HttpClient, EndsAStreamOnRequestOfItsReaderOrOfAnotherThread) {
  HttpTestServer server([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    peer.wait_for_end();
  });
  const auto client = client_of(server.port());
  HttpRequest request;
  request.on_data = [](std::string_view) { return false; };
  EXPECT_EQ(client->request(request).failure, HttpFailure::kStopped);
  std::stop_source source;
  request.stop = source.get_token();
  std::thread other;
  request.on_data = [&](std::string_view) {
    other = std::thread([&] { source.request_stop(); });
    return true;
  };
  EXPECT_EQ(client->request(request).failure, HttpFailure::kStopped);
  other.join();
}

// --- TLS ---

HttpClient::Options trusting(const std::string& ca_pem) {
  HttpClient::Options options;
  options.trust.ca_pem = ca_pem;
  return options;
}

TEST(HttpClient, TrustsAServerOfItsAuthority) {
  const TestAuthority authority;
  HttpTestServer server(echo, authority.issue("server", "IP:127.0.0.1"));
  const auto client = client_of(server.port(), trusting(authority.certificate_pem()));
  EXPECT_EQ(client->request({}).status, 200);
  EXPECT_EQ(client->request({}).status, 200);
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, RefusesAServerOfAnotherAuthorityOrName) {
  const TestAuthority authority;
  const TestAuthority other;
  HttpTestServer server(echo, authority.issue("server", "DNS:api.example,DNS:*.sub.example"));
  const auto stranger = client_of(server.port(), trusting(other.certificate_pem()));
  HttpAnswer got = stranger->request({});
  EXPECT_EQ(got.failure, HttpFailure::kTls);
  EXPECT_FALSE(got.sent);
  got = client_of(server.port(), trusting(authority.certificate_pem()))->request({});
  EXPECT_EQ(got.failure, HttpFailure::kTls);
  EXPECT_THAT(got.error, HasSubstr("127.0.0.1"));
  for (const auto& [name, trusted] : {std::pair("api.example", true),
                                      {"x.sub.example", true},
                                      {"api.example.evil", false},
                                      {"y.x.sub.example", false}}) {
    HttpClient::Options options = trusting(authority.certificate_pem());
    options.server_name = name;
    EXPECT_EQ(client_of(server.port(), options)->request({}).status == 200, trusted) << name;
  }
  HttpClient::Options blind;
  blind.trust.insecure = true;
  EXPECT_EQ(client_of(server.port(), blind)->request({}).status, 200);
}

TEST(HttpClient, ShowsItsCertificateWhereOneIsAskedFor) {
  const TestAuthority authority;
  const TestIdentity me = authority.issue("me", "");
  HttpTestServer server(echo, authority.issue("server", "IP:127.0.0.1"),
                        authority.certificate_pem());
  HttpClient::Options options = trusting(authority.certificate_pem());
  EXPECT_FALSE(client_of(server.port(), options)->request({}).whole());
  options.trust.certificate_pem = me.certificate_pem;
  options.trust.key_pem = SecretText(me.key_pem);
  EXPECT_EQ(client_of(server.port(), options)->request({}).status, 200);
}

TEST(HttpClient, RefusesCertificatesThatAreNone) {
  const TestIdentity me = TestAuthority().issue("me", "");
  const TestIdentity other = TestAuthority().issue("other", "");
  const HttpsTrust bad[] = {
      {.ca_pem = "nonsense"},
      {.certificate_pem = me.certificate_pem},
      {.certificate_pem = "nonsense", .key_pem = SecretText(me.key_pem)},
      {.certificate_pem = me.certificate_pem, .key_pem = SecretText("nonsense")},
      {.certificate_pem = me.certificate_pem, .key_pem = SecretText(other.key_pem)},
  };
  for (const HttpsTrust& trust : bad) {
    HttpClient::Options options;
    options.trust = trust;
    EXPECT_FALSE(HttpClient::create(options).ok());
  }
}

TEST(HttpClient, SaysThatAServerSpeaksNoTls) {
  HttpTestServer server([](Peer& peer) { peer.write("HTTP/1.1 400 Bad Request\r\n\r\n"); });
  HttpClient::Options blind;
  blind.trust.insecure = true;
  EXPECT_EQ(client_of(server.port(), blind)->request({}).failure, HttpFailure::kTls);
}

// --- proxies ---

TEST(HttpClient, AsksAProxyForTheWay) {
  std::string asked;
  // The proxy itself plays the server once it has been asked.
  HttpTestServer proxy([&](Peer& peer) {
    peer.read_request();
    asked = peer.head;
    peer.write("HTTP/1.1 200 Connection established\r\n\r\n");
    peer.read_request();
    peer.write(answer("through"));
  });
  HttpClient::Options options{.host = "api.example", .port = 6443, .tls = false};
  options.proxy = HttpProxy{.host = "127.0.0.1", .port = proxy.port()};
  options.proxy->user_info = SecretText("me:hush");
  const auto client = HttpClient::create(options);
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->request({}).body, "through");
  EXPECT_THAT(asked, HasSubstr("CONNECT api.example:6443 HTTP/1.1\r\n"));
  EXPECT_THAT(asked, HasSubstr("Proxy-Authorization: Basic bWU6aHVzaA==\r\n"));
}

TEST(HttpClient, SaysThatTheProxyRefuses) {
  HttpTestServer proxy([](Peer& peer) {
    peer.read_request();
    peer.write("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
  });
  HttpClient::Options options{.host = "api.example", .port = 6443, .tls = false};
  options.proxy = HttpProxy{.host = "127.0.0.1", .port = proxy.port()};
  options.proxy->user_info = SecretText("me:hush");
  const HttpAnswer got = HttpClient::create(options).value()->request({});
  EXPECT_EQ(got.failure, HttpFailure::kProxy);
  EXPECT_THAT(got.error, HasSubstr("407"));
  EXPECT_THAT(got.error, Not(HasSubstr("hush")));
}

TEST(HttpClient, SpeaksSocks) {
  std::string asked;
  HttpTestServer proxy([&](Peer& peer) {
    peer.read_exactly(3);
    peer.write(std::string("\x05\x00", 2));
    asked = peer.read_exactly(5 + 11 + 2);
    peer.write(std::string("\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50", 10));
    peer.read_request();
    peer.write(answer("through"));
  });
  HttpClient::Options options{.host = "api.example", .port = 0x1234, .tls = false};
  options.proxy =
      HttpProxy{.kind = HttpProxy::Kind::kSocks5, .host = "127.0.0.1", .port = proxy.port()};
  const HttpAnswer got = HttpClient::create(options).value()->request({});
  EXPECT_EQ(got.body, "through") << got.error;
  EXPECT_EQ(asked, std::string("\x05\x01\x00\x03\x0b", 5) + "api.example\x12\x34");
}

TEST(HttpClient, SaysThatASocksProxyRefuses) {
  HttpTestServer proxy([](Peer& peer) {
    peer.read_exactly(3);
    peer.write(std::string("\x05\x00", 2));
    peer.read_exactly(5 + 11 + 2);
    peer.write(std::string("\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", 10));
    peer.wait_for_end();
  });
  HttpClient::Options options{.host = "api.example", .port = 6443, .tls = false};
  options.proxy =
      HttpProxy{.kind = HttpProxy::Kind::kSocks5, .host = "127.0.0.1", .port = proxy.port()};
  const HttpAnswer got = HttpClient::create(options).value()->request({});
  EXPECT_EQ(got.failure, HttpFailure::kProxy);
  EXPECT_THAT(got.error, HasSubstr("SOCKS error 5"));
}

}  // namespace
}  // namespace shanty::net
