#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

// For tests: a server of this process that says to each connection what a script tells it to, and
// the certificates it may need.

namespace shanty::net {

struct TestIdentity {
  std::string certificate_pem;
  std::string key_pem;
};

// An authority made for one test.
class TestAuthority {
 public:
  TestAuthority() : key_(EVP_EC_gen("P-256"), &EVP_PKEY_free) {
    certificate_ = make(key_.get(), "test authority", "", nullptr);
  }

  std::string certificate_pem() const { return pem(certificate_.get()); }

  // `names` as OpenSSL writes them: "DNS:localhost,IP:127.0.0.1".
  TestIdentity issue(const std::string& common_name, const std::string& names) const {
    const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
    const Certificate certificate = make(key.get(), common_name, names, certificate_.get());
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {pem(certificate.get()), text_of(bio)};
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static std::string text_of(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }

  static std::string pem(X509* certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    return text_of(bio);
  }

  Certificate make(EVP_PKEY* key, const std::string& name, const std::string& names,
                   X509* issuer) const {
    Certificate made(X509_new(), &X509_free);
    X509_set_version(made.get(), 2);
    static std::atomic<long> serial = 1;
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 86400);
    X509_set_pubkey(made.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made.get(), X509_get_subject_name(issuer ? issuer : made.get()));
    const auto extend = [&](int kind, const std::string& value) {
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
      X509_add_ext(made.get(), extension, -1);
      X509_EXTENSION_free(extension);
    };
    if (issuer == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
    if (!names.empty()) extend(NID_subject_alt_name, names);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    return made;
  }

  Key key_;
  Certificate certificate_{nullptr, &X509_free};
};

class HttpTestServer {
 public:
  // One connection, with blocking calls. All fail silently: the client's end is what is tested.
  class Peer {
   public:
    Peer(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls)
        : socket_(std::move(socket)) {
      if (tls == nullptr) return;
      tls_ = std::make_unique<Tls>(socket_, *tls);
      tls_->handshake(boost::asio::ssl::stream_base::server, error_);
    }

    bool alive() const { return !error_; }

    // The next request: its head in `head`, its body in `body`. False at the end.
    bool read_request() {
      const auto size = tls_ ? boost::asio::read_until(*tls_, dynamic(), "\r\n\r\n", error_)
                             : boost::asio::read_until(socket_, dynamic(), "\r\n\r\n", error_);
      if (error_) return false;
      head = pending_.substr(0, size);
      pending_.erase(0, size);
      const size_t at = head.find("Content-Length: ");
      const size_t length = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
      body = read_exactly(length);
      return !error_;
    }

    std::string read_exactly(size_t size) {
      while (pending_.size() < size && !error_) {
        char buffer[4096];
        const size_t got = tls_ ? tls_->read_some(boost::asio::buffer(buffer), error_)
                                : socket_.read_some(boost::asio::buffer(buffer), error_);
        pending_.append(buffer, got);
      }
      const std::string bytes = pending_.substr(0, size);
      pending_.erase(0, bytes.size());
      return bytes;
    }

    void write(std::string_view bytes) {
      const boost::asio::const_buffer data(bytes.data(), bytes.size());
      tls_ ? boost::asio::write(*tls_, data, error_) : boost::asio::write(socket_, data, error_);
    }

    // Until the client goes away.
    void wait_for_end() {
      while (!error_) read_exactly(pending_.size() + 1);
    }

    std::string head;
    std::string body;

   private:
    using Tls = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;
    decltype(boost::asio::dynamic_buffer(std::declval<std::string&>())) dynamic() {
      return boost::asio::dynamic_buffer(pending_);
    }
    boost::asio::ip::tcp::socket socket_;
    std::unique_ptr<Tls> tls_;
    boost::system::error_code error_;
    std::string pending_;
  };

  using Script = std::function<void(Peer&)>;

  // `script` runs once for each connection, in a thread of its own.
  explicit HttpTestServer(Script script, std::optional<TestIdentity> identity = std::nullopt,
                          const std::string& client_ca_pem = "")
      : script_(std::move(script)), acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}) {
    if (identity) {
      using boost::asio::ssl::context;
      tls_.emplace(context::tls_server);
      tls_->use_certificate_chain(boost::asio::buffer(identity->certificate_pem));
      tls_->use_private_key(boost::asio::buffer(identity->key_pem), context::pem);
      if (!client_ca_pem.empty()) {
        tls_->add_certificate_authority(boost::asio::buffer(client_ca_pem));
        tls_->set_verify_mode(boost::asio::ssl::verify_peer |
                              boost::asio::ssl::verify_fail_if_no_peer_cert);
      }
    }
    port_ = acceptor_.local_endpoint().port();
    accepting_ = std::thread([this] { accept(); });
  }

  ~HttpTestServer() {
    stopping_ = true;
    boost::asio::ip::tcp::socket poke(io_);
    boost::system::error_code ignored;
    poke.connect({boost::asio::ip::address_v4::loopback(), port_}, ignored);
    accepting_.join();
    for (std::thread& thread : threads_) thread.join();
  }

  uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void accept() {
    for (;;) {
      boost::asio::ip::tcp::socket socket(io_);
      boost::system::error_code error;
      acceptor_.accept(socket, error);
      if (stopping_ || error) return;
      ++connections_;
      threads_.emplace_back([this, taken = std::move(socket)]() mutable {
        Peer peer(std::move(taken), tls_ ? &*tls_ : nullptr);
        if (peer.alive()) script_(peer);
      });
    }
  }

  const Script script_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::optional<boost::asio::ssl::context> tls_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::thread accepting_;
  std::vector<std::thread> threads_;
};

}  // namespace shanty::net
