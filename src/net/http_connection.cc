#include "net/http_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "base/base64.h"
#include "net/address.h"
#include "net/http_response_parser.h"
#include "net/https_trust.h"
#include "net/ws_stream.h"

namespace shanty::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kMaxAddresses = 8;
constexpr size_t kMaxSocksText = 255;

std::string limit_text(Duration limit) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

// Whoever only reads, as of a watch or a log, would never learn that the other side is gone.
void notice_silent_death(int fd) {
  constexpr int kOn = 1;
  constexpr int kIdleS = 15;
  constexpr int kEveryS = 5;
  constexpr int kProbes = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof kIdleS);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kEveryS, sizeof kEveryS);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

bool is_end(const error_code& error) {
  return error == asio::error::eof || error == asio::ssl::error::stream_truncated;
}

}  // namespace

struct HttpConnection::Impl {
  explicit Impl(HttpTarget wanted) : target(std::move(wanted)), socket(io), buffer(kReadBytes, 0) {}

  // Runs one asynchronous step to its end, to the limit or to the wish to stop.
  template <typename Start>
  HttpEnd run(Start start, Duration limit, const std::stop_token& stop, const std::string& doing) {
    bool done = false;
    last_error = {};
    last_bytes = 0;
    start([this, &done](const error_code& error, auto... bytes) {
      done = true;
      last_error = error;
      ((last_bytes = bytes), ...);
    });
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
    const std::stop_callback wake(stop, [this] { asio::post(io, [] {}); });
    io.restart();
    while (!done) {
      const bool stopped = stop.stop_requested();
      if (stopped || std::chrono::steady_clock::now() >= deadline) {
        close();
        while (!done && io.run_one() > 0) {
        }
        if (stopped) return {HttpFailure::kStopped, doing + ": stopped"};
        return {HttpFailure::kTimeout, doing + ": nothing came within " + limit_text(limit)};
      }
      io.run_one_until(deadline);
      if (io.stopped()) io.restart();
    }
    return {};
  }

  HttpEnd open_tcp(const std::string& host, uint16_t port, Duration limit,
                   const std::stop_token& stop) {
    const std::string where = join_host_port(host, port);
    const auto addresses = resolve(host);
    if (!addresses) return {HttpFailure::kResolve, addresses.error().message};
    HttpEnd end{HttpFailure::kConnect, "cannot connect to " + where};
    size_t tried = 0;
    for (const std::string& address : *addresses) {
      if (++tried > kMaxAddresses) break;
      end = open_address(address, port, where, limit, stop);
      if (end.ok() || end.failure == HttpFailure::kStopped) break;
    }
    return end;
  }

  HttpEnd open_address(const std::string& address, uint16_t port, const std::string& where,
                       Duration limit, const std::stop_token& stop) {
    error_code error;
    const tcp::endpoint endpoint(asio::ip::make_address(address, error), port);
    const std::string doing = "cannot connect to " + where;
    if (!error) close();
    if (!error) socket.open(endpoint.protocol(), error);
    if (error) return {HttpFailure::kConnect, doing + ": " + error.message()};
    prepare_socket(socket);
    notice_silent_death(socket.native_handle());
    HttpEnd end = run([&](auto done) { socket.async_connect(endpoint, done); }, limit, stop, doing);
    if (!end.ok()) return end;
    // TCP can connect a port of this machine with itself where nobody listens.
    if (!last_error && socket.local_endpoint(error) == socket.remote_endpoint(error)) {
      last_error = asio::error::connection_refused;
    }
    if (!last_error) return {};
    close();
    return {HttpFailure::kConnect, doing + ": " + last_error.message()};
  }

  HttpEnd open(Duration limit, const std::stop_token& stop) {
    const std::string host = target.proxy ? target.proxy->host : target.host;
    const uint16_t port = target.proxy ? target.proxy->port : target.port;
    HttpEnd end = open_tcp(host, port, limit, stop);
    if (end.ok() && target.proxy) end = pass_proxy(limit, stop);
    if (end.ok() && target.tls != nullptr) end = secure(limit, stop);
    if (!end.ok()) close();
    return end;
  }

  HttpEnd secure(Duration limit, const std::stop_token& stop) {
    tls = std::make_unique<asio::ssl::stream<tcp::socket&>>(socket, *target.tls);
    const std::string where = join_host_port(target.host, target.port);
    if (!expect_server_name(tls->native_handle(), target.server_name)) {
      return {HttpFailure::kTls, "\"" + target.server_name + "\" is no name of a server"};
    }
    const std::string doing = "the TLS handshake with " + where + " does not end";
    const HttpEnd end =
        run([&](auto done) { tls->async_handshake(asio::ssl::stream_base::client, done); }, limit,
            stop, doing);
    if (!end.ok() || !last_error) return end;
    const std::string certificate = certificate_problem(tls->native_handle());
    if (!certificate.empty()) {
      return {HttpFailure::kTls, "the certificate of " + where + " is not to be trusted for \"" +
                                     target.server_name + "\": " + certificate};
    }
    if (is_end(last_error) || last_error == asio::error::connection_reset) {
      return {HttpFailure::kClosed, where + " closed the connection in the TLS handshake"};
    }
    return {HttpFailure::kTls, "no TLS with " + where + ": " + last_error.message()};
  }

  // --- proxies ---

  HttpEnd pass_proxy(Duration limit, const std::stop_token& stop) {
    const HttpEnd end = target.proxy->kind == HttpProxy::Kind::kConnect
                            ? pass_connect_proxy(limit, stop)
                            : pass_socks_proxy(limit, stop);
    if (end.ok() || end.failure == HttpFailure::kStopped) return end;
    return {end.failure == HttpFailure::kTimeout ? end.failure : HttpFailure::kProxy,
            "the proxy " + join_host_port(target.proxy->host, target.proxy->port) +
                " does not lead to " + join_host_port(target.host, target.port) + ": " + end.error};
  }

  HttpEnd pass_connect_proxy(Duration limit, const std::stop_token& stop) {
    const std::string where = join_host_port(target.host, target.port);
    std::string request = "CONNECT " + where + " HTTP/1.1\r\nHost: " + where + "\r\n";
    const std::string& user = target.proxy->user_info.reveal();
    if (!user.empty()) request += "Proxy-Authorization: Basic " + encode_base64(user) + "\r\n";
    HttpEnd end = write(request + "\r\n", limit, stop);
    HttpResponseParser parser({.no_body = true}, [](std::string_view) { return false; });
    while (end.ok() && !parser.done()) {
      std::string bytes;
      end = read(bytes, limit, stop);
      if (!end.ok()) break;
      const auto problem = bytes.empty() ? parser.feed_end() : parser.feed(bytes);
      if (problem.failure != HttpFailure::kNone) {
        return {HttpFailure::kProxy, "its answer " + problem.what};
      }
    }
    if (end.ok() && parser.status() / 100 != 2) {
      return {HttpFailure::kProxy, "it answers " + std::to_string(parser.status())};
    }
    return end;
  }

  HttpEnd read_exactly(std::string& bytes, size_t size, Duration limit,
                       const std::stop_token& stop) {
    bytes.assign(size, 0);
    const HttpEnd end = run([&](auto done) { asio::async_read(socket, asio::buffer(bytes), done); },
                            limit, stop, "no answer");
    if (!end.ok() || !last_error) return end;
    return {HttpFailure::kClosed, "it closed the connection"};
  }

  HttpEnd pass_socks_proxy(Duration limit, const std::stop_token& stop) {
    const std::string& user_info = target.proxy->user_info.reveal();
    const std::string user = user_info.substr(0, user_info.find(':'));
    const std::string password =
        user.size() < user_info.size() ? user_info.substr(user.size() + 1) : "";
    if (std::max({user.size(), password.size(), target.host.size()}) > kMaxSocksText) {
      return {HttpFailure::kProxy, "a name is too long for SOCKS"};
    }
    const auto sized = [](const std::string& text) {
      return std::string(1, static_cast<char>(text.size())) + text;
    };
    std::string bytes;
    HttpEnd end =
        write(user.empty() ? std::string("\x05\x01\x00", 3) : "\x05\x01\x02", limit, stop);
    if (end.ok()) end = read_exactly(bytes, 2, limit, stop);
    if (!end.ok()) return end;
    if (bytes[0] != 5) return {HttpFailure::kProxy, "it does not speak SOCKS 5"};
    if (bytes[1] != (user.empty() ? 0 : 2)) return {HttpFailure::kProxy, "it wants another login"};
    if (!user.empty()) {
      end = write("\x01" + sized(user) + sized(password), limit, stop);
      if (end.ok()) end = read_exactly(bytes, 2, limit, stop);
      if (!end.ok()) return end;
      if (bytes[1] != 0) return {HttpFailure::kProxy, "it refuses the user"};
    }
    std::string request("\x05\x01\x00\x03", 4);
    request += sized(target.host);
    request += static_cast<char>(target.port >> 8);
    request += static_cast<char>(target.port & 255);
    end = write(request, limit, stop);
    if (end.ok()) end = read_exactly(bytes, 5, limit, stop);
    if (!end.ok()) return end;
    if (bytes[1] != 0) {
      return {HttpFailure::kProxy, "SOCKS error " + std::to_string(static_cast<int>(bytes[1]))};
    }
    const size_t name_bytes = static_cast<unsigned char>(bytes[4]);
    const size_t rest = bytes[3] == 1 ? 5 : bytes[3] == 4 ? 17 : name_bytes + 2;
    return read_exactly(bytes, rest, limit, stop);
  }

  // --- bytes ---

  HttpEnd write(std::string_view bytes, Duration limit, const std::stop_token& stop) {
    const asio::const_buffer data(bytes.data(), bytes.size());
    const HttpEnd end = run(
        [&](auto done) {
          tls ? asio::async_write(*tls, data, done) : asio::async_write(socket, data, done);
        },
        limit, stop, "the request is not taken");
    if (!end.ok() || !last_error) return end;
    close();
    return {HttpFailure::kClosed,
            "the connection ended while the request was sent: " + last_error.message()};
  }

  HttpEnd read(std::string& bytes, Duration limit, const std::stop_token& stop) {
    bytes.clear();
    const HttpEnd end = run(
        [&](auto done) {
          tls ? tls->async_read_some(asio::buffer(buffer), done)
              : socket.async_read_some(asio::buffer(buffer), done);
        },
        limit, stop, "no answer");
    if (!end.ok()) return end;
    if (!last_error) {
      bytes.assign(buffer.data(), last_bytes);
      return {};
    }
    const bool orderly = last_error == asio::error::eof;
    const bool tls_alert = last_error.category() == asio::error::get_ssl_category();
    close();
    if (orderly) return {};
    if (tls_alert) {
      return {HttpFailure::kTls, "the server ends the TLS connection: " + last_error.message()};
    }
    return {HttpFailure::kClosed, "the connection was cut: " + last_error.message()};
  }

  bool is_quiet() {
    if (!socket.is_open()) return false;
    pollfd watched{socket.native_handle(), POLLIN | POLLRDHUP, 0};
    return poll(&watched, 1, 0) == 0;
  }

  void close() {
    error_code ignored;
    socket.close(ignored);
  }

  const HttpTarget target;
  asio::io_context io{1};
  tcp::socket socket;
  std::unique_ptr<asio::ssl::stream<tcp::socket&>> tls;
  std::string buffer;
  error_code last_error;
  size_t last_bytes = 0;
};

HttpConnection::HttpConnection(HttpTarget target)
    : impl_(std::make_unique<Impl>(std::move(target))) {}
HttpConnection::~HttpConnection() = default;

HttpEnd HttpConnection::open(Duration limit, const std::stop_token& stop) {
  return impl_->open(limit, stop);
}
HttpEnd HttpConnection::write(std::string_view bytes, Duration limit, const std::stop_token& stop) {
  return impl_->write(bytes, limit, stop);
}
HttpEnd HttpConnection::read(std::string& bytes, Duration limit, const std::stop_token& stop) {
  return impl_->read(bytes, limit, stop);
}
bool HttpConnection::is_quiet() { return impl_->is_quiet(); }

}  // namespace shanty::net
