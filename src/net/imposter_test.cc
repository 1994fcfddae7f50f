#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>

#include "net/test_support.h"
#include "net/tls.h"

// A client meets servers that are not the coordinator of its job.

namespace shanty::net {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using testing::HasSubstr;
using testing::Not;

// Listens on loopback, sends `banner` to whoever comes, keeps what it gets.
class BannerServer {
 public:
  BannerServer(asio::io_context& io, std::string banner)
      : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), banner_(banner) {
    accept();
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      boost::system::error_code ignored;
      asio::write(socket, asio::buffer(banner_), ignored);
      sockets_.push_back(std::move(socket));
      accept();
    });
  }
  tcp::acceptor acceptor_;
  std::string banner_;
  std::vector<tcp::socket> sockets_;
};

void use_self_signed_certificate(SSL_CTX* context) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  ASSERT_NE(X509_sign(certificate, key, EVP_sha256()), 0);
  ASSERT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

// A TLS server with a certificate and no key; keeps what a client tells it.
class CertificateServer {
 public:
  explicit CertificateServer(asio::io_context& io)
      : acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        context_(asio::ssl::context::tls_server) {
    use_self_signed_certificate(context_.native_handle());
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      stream_ = std::make_unique<asio::ssl::stream<tcp::socket>>(std::move(socket), context_);
      stream_->async_handshake(asio::ssl::stream_base::server,
                               [this](boost::system::error_code failed) {
                                 if (!failed) read();
                               });
    });
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  std::string received;

 private:
  void read() {
    stream_->async_read_some(asio::buffer(buffer_),
                             [this](boost::system::error_code error, size_t size) {
                               received.append(buffer_, size);
                               if (!error) read();
                             });
  }
  tcp::acceptor acceptor_;
  asio::ssl::context context_;
  std::unique_ptr<asio::ssl::stream<tcp::socket>> stream_;
  char buffer_[4096];
};

WsClient::Options options_to(uint16_t port, bool tls) {
  WsClient::Options options;
  options.port = port;
  options.tls = tls;
  return options;
}

TEST(Imposter, AServerWithACertificateInsteadOfTheTokenIsRefusedAndToldNothing) {
  asio::io_context io;
  CertificateServer imposter(io);
  TestClient client(io, options_to(imposter.port(), true));
  ASSERT_TRUE(run_until(io, [&] { return !client.rejected.empty(); }));
  EXPECT_THAT(client.rejected[0], HasSubstr("is not the coordinator of this job"));
  run_for(io, 50ms);
  EXPECT_EQ(imposter.received, "");
  EXPECT_EQ(client.opened, 0);
}

TEST(Imposter, AServerOfAnotherProtocolIsNamedAsSuch) {
  for (const bool tls : {false, true}) {
    asio::io_context io;
    BannerServer ssh(io, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n");
    TestClient client(io, options_to(ssh.port(), tls));
    ASSERT_TRUE(run_until(io, [&] { return !client.rejected.empty(); })) << tls;
    EXPECT_THAT(client.rejected[0], HasSubstr("what answers at 127.0.0.1:"));
    EXPECT_THAT(client.rejected[0], HasSubstr("is not the coordinator"));
  }
}

TEST(Imposter, AWebServerIsNamedAsSuch) {
  asio::io_context io;
  BannerServer web(io, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  TestClient client(io, options_to(web.port(), false));
  ASSERT_TRUE(run_until(io, [&] { return !client.rejected.empty(); }));
  EXPECT_THAT(client.rejected[0], HasSubstr("is not the coordinator"));
}

TEST(Imposter, AServerThatNeverAnswersIsTriedAgain) {
  asio::io_context io;
  BannerServer silent(io, "");
  WsClient::Options options = options_to(silent.port(), false);
  options.connect_limit = 100ms;
  TestClient client(io, options);
  ASSERT_TRUE(run_until(io, [&] { return !client.client->last_error().empty(); }));
  EXPECT_THAT(client.client->last_error(), HasSubstr("the handshake did not end in time"));
  EXPECT_TRUE(client.rejected.empty());
}

TEST(Imposter, AServerThatFloodsInsteadOfAnsweringIsCutOff) {
  asio::io_context io;
  BannerServer flood(io, "HTTP/1.1 200 OK\r\n" + std::string(1 << 18, 'x'));
  TestClient client(io, options_to(flood.port(), false));
  ASSERT_TRUE(run_until(
      io, [&] { return !client.rejected.empty() || !client.client->last_error().empty(); }));
  EXPECT_EQ(client.opened, 0);
}

TEST(Tls, TheKeyIsNotTheToken) {
  EXPECT_EQ(derive_psk(kToken).size(), 32u);
  EXPECT_NE(derive_psk(kToken), kToken);
  EXPECT_NE(derive_psk(kToken), derive_psk(kOtherToken));
  EXPECT_EQ(derive_psk(kToken), derive_psk(kToken));
}

TEST(Tls, NothingOfTheTokenOrTheMessagesIsOnTheWireInTheClear) {
  asio::io_context io;
  TestServer server(io, {.tls = true});
  // A relay between the two keeps what passes.
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  std::string seen;
  tcp::socket near(io);
  tcp::socket far(io);
  std::array<char, 4096> up{};
  std::array<char, 4096> down{};
  std::function<void(tcp::socket&, tcp::socket&, std::array<char, 4096>&)> relay =
      [&](tcp::socket& from, tcp::socket& to, std::array<char, 4096>& buffer) {
        from.async_read_some(asio::buffer(buffer), [&](boost::system::error_code error, size_t n) {
          if (error) return;
          seen.append(buffer.data(), n);
          asio::write(to, asio::buffer(buffer, n), error);
          relay(from, to, buffer);
        });
      };
  acceptor.async_accept(near, [&](boost::system::error_code) {
    far.connect(tcp::endpoint(asio::ip::address_v4::loopback(), server.server->port()));
    relay(near, far, up);
    relay(far, near, down);
  });
  TestClient client(io, options_to(acceptor.local_endpoint().port(), true));
  ASSERT_TRUE(run_until(io, [&] { return client.opened == 1; }));
  client.client->send("a very recognisable message");
  ASSERT_TRUE(run_until(io, [&] { return client.messages.size() == 1; }));
  EXPECT_GT(seen.size(), 200u);
  EXPECT_THAT(seen, Not(HasSubstr(kToken)));
  EXPECT_THAT(seen, Not(HasSubstr("Bearer")));
  EXPECT_THAT(seen, Not(HasSubstr("recognisable")));
}

}  // namespace
}  // namespace shanty::net
