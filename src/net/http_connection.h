#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/secret.h"
#include "net/http_message.h"

namespace boost::asio::ssl {
class context;
}

namespace shanty::net {

// How a step on a connection ended; `error` is a sentence when `failure` is not kNone.
struct HttpEnd {
  HttpFailure failure = HttpFailure::kNone;
  std::string error;
  bool ok() const { return failure == HttpFailure::kNone; }
};

struct HttpProxy {
  enum class Kind { kConnect, kSocks5 };
  Kind kind = Kind::kConnect;
  std::string host;
  uint16_t port = 0;
  SecretText user_info;  // "user:password" or empty
};

struct HttpTarget {
  std::string host;
  uint16_t port = 0;
  boost::asio::ssl::context* tls = nullptr;  // null: plain; outlives the connection
  std::string server_name;                   // that the certificate must carry
  std::optional<HttpProxy> proxy;
};

// One TCP or TLS connection to a server. Blocking with limits; one thread at a time. A step that
// fails leaves the connection closed.
class HttpConnection {
 public:
  explicit HttpConnection(HttpTarget target);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // To the proxy or the server, with all handshakes. `limit` holds for each address that is tried
  // and again for the handshakes. Names are looked up by the system, which has limits of its own.
  HttpEnd open(Duration limit, const std::stop_token& stop);
  HttpEnd write(std::string_view bytes, Duration limit, const std::stop_token& stop);
  // Puts what has come (at least a byte) into `bytes`; empty at the connection's orderly end.
  HttpEnd read(std::string& bytes, Duration limit, const std::stop_token& stop);
  // Nothing has come and nobody has closed since the last answer.
  bool is_quiet();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty::net
