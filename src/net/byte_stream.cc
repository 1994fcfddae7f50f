#include "net/byte_stream.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/ssl/context.hpp>
#include <fmt/format.h>

#include "net/address.h"
#include "net/tls.h"

namespace shanty::net {
namespace {

constexpr size_t kMaxPieceBytes = size_t{1} << 20;  // of one call of the system or of OpenSSL

void set_limits(int socket, Duration limit) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(limit).count();
  const timeval time{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// With SO_SNDTIMEO set before it, connect() has that limit too.
Result<Fd> connect_one(const std::string& address, uint16_t port, Duration limit) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) {
    return Error{fmt::format("{} is no address", address)};
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  Fd socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno_error("making a socket");
  set_limits(socket.get(), limit);
  if (::connect(socket.get(), list->ai_addr, list->ai_addrlen) != 0) {
    return errno_error(fmt::format("connecting to {}", join_host_port(address, port)));
  }
  return socket;
}

Result<Fd> connect_any(const std::string& host, uint16_t port, Duration limit) {
  Error last{fmt::format("{} has no address", host)};
  for (const std::string& address : TRY(resolve(host))) {
    auto socket = connect_one(address, port, limit);
    if (socket) return socket;
    last = socket.error();
  }
  return last;
}

}  // namespace

struct ByteStream::Tls {
  std::unique_ptr<boost::asio::ssl::context> context;
  SSL* connection = nullptr;
  ~Tls() { SSL_free(connection); }
};

ByteStream::ByteStream(Fd socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {}

ByteStream::~ByteStream() = default;

void ByteStream::shut_socket(int socket) { ::shutdown(socket, SHUT_RDWR); }

Error ByteStream::failed(const char* what) const {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return Error{fmt::format("{} {}: it moved nothing in time", what, peer_)};
  }
  if (errno == 0) return Error{fmt::format("{} {}: it closed the connection", what, peer_)};
  return errno_error(fmt::format("{} {}", what, peer_));
}

Status ByteStream::begin_tls(const Options& options, bool is_server) {
  auto tls = std::make_unique<Tls>();
  tls->context =
      is_server ? make_tls_server_context(options.token) : make_tls_client_context(options.token);
  tls->connection = SSL_new(tls->context->native_handle());
  if (tls->connection == nullptr || SSL_set_fd(tls->connection, socket_.get()) != 1) {
    return Error{"no memory for a TLS connection"};
  }
  errno = 0;
  const int done = is_server ? SSL_accept(tls->connection) : SSL_connect(tls->connection);
  if (done != 1 && errno != 0) return failed("the handshake with");
  if (done != 1 || !peer_proved_token(tls->connection)) {
    return Error{fmt::format("the handshake with {}: it does not know the token", peer_)};
  }
  tls_ = std::move(tls);
  return {};
}

Result<std::unique_ptr<ByteStream>> ByteStream::connect(const Options& options) {
  Fd socket = TRY(connect_any(options.host, options.port, options.limit));
  std::unique_ptr<ByteStream> stream(
      new ByteStream(std::move(socket), join_host_port(options.host, options.port)));
  TRY_STATUS(options.tls ? stream->begin_tls(options, false) : stream->write(options.token));
  return stream;
}

Result<std::unique_ptr<ByteStream>> ByteStream::accept(Fd socket, const Options& options) {
  set_limits(socket.get(), options.limit);
  std::unique_ptr<ByteStream> stream(new ByteStream(std::move(socket), options.host));
  if (options.tls) {
    TRY_STATUS(stream->begin_tls(options, true));
    return stream;
  }
  std::string given(options.token.size(), '\0');
  TRY_STATUS(stream->read(given.data(), given.size()));
  if (CRYPTO_memcmp(given.data(), options.token.data(), given.size()) != 0) {
    return Error{fmt::format("{} does not know the token", options.host)};
  }
  return stream;
}

Status ByteStream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kMaxPieceBytes);
    errno = 0;
    const auto done = tls_ ? static_cast<ssize_t>(
                                 SSL_write(tls_->connection, bytes.data(), static_cast<int>(size)))
                           : ::send(socket_.get(), bytes.data(), size, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failed("sending to");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

Status ByteStream::read(char* out, size_t size) {
  while (size > 0) {
    const size_t piece = std::min(size, kMaxPieceBytes);
    errno = 0;
    const auto done =
        tls_ ? static_cast<ssize_t>(SSL_read(tls_->connection, out, static_cast<int>(piece)))
             : ::recv(socket_.get(), out, piece, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failed("receiving from");
    out += done;
    size -= static_cast<size_t>(done);
  }
  return {};
}

}  // namespace shanty::net
