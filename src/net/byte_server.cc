#include "net/byte_server.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fmt/format.h>

namespace shanty::net {
namespace {

constexpr int kBacklog = 64;
constexpr auto kBreather = std::chrono::milliseconds(10);  // while there are no descriptors

// IPv6 and IPv4 together where there is IPv6, for all interfaces.
Result<Fd> bind_all() {
  Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.valid()) {
    const int off = 0;
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0) return socket;
  }
  socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!socket.valid() || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) {
    return errno_error("finding a free port");
  }
  return socket;
}

Result<Fd> bind_loopback() {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!socket.valid() ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) != 0) {
    return errno_error("finding a free port on loopback");
  }
  return socket;
}

Result<uint16_t> port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return errno_error("asking for the port of a socket");
  }
  // The port stands at the same place for IPv4 and IPv6.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Result<std::unique_ptr<ByteServer>> ByteServer::listen(Options options, Serve serve) {
  Fd listener = options.on_loopback ? TRY(bind_loopback()) : TRY(bind_all());
  if (::listen(listener.get(), kBacklog) != 0) return errno_error("listening");
  const uint16_t port = TRY(port_of(listener.get()));
  return std::unique_ptr<ByteServer>(
      new ByteServer(std::move(options), std::move(serve), std::move(listener), port));
}

ByteServer::ByteServer(Options options, Serve serve, Fd listener, uint16_t port)
    : options_(std::move(options)),
      serve_(std::move(serve)),
      listener_(std::move(listener)),
      port_(port),
      acceptor_([this] { accept_all(); }) {}

ByteServer::~ByteServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ByteStream::shut_socket(listener_.get());
    for (const Connection& connection : connections_) {
      ByteStream::shut_socket(connection.socket.get());
    }
  }
  acceptor_.join();
  for (Connection& connection : connections_) connection.thread.join();
}

void ByteServer::accept_all() {
  while (true) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const int why = errno;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    clear_ended();
    if (socket.valid()) {
      begin(std::move(socket));
    } else if (why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS) {
      std::this_thread::sleep_for(kBreather);
    }
  }
}

void ByteServer::clear_ended() {
  std::list<Connection> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = connections_.begin(); at != connections_.end();) {
      const auto next = std::next(at);
      if (at->is_over) ended.splice(ended.end(), connections_, at);
      at = next;
    }
  }
  for (Connection& connection : ended) connection.thread.join();
}

void ByteServer::begin(Fd socket) {
  Fd second(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!second.valid()) return;
  const std::lock_guard lock(mutex_);
  const auto is_unproven = [](const Connection& c) { return !c.is_over && !c.is_proven; };
  const auto unproven = std::count_if(connections_.begin(), connections_.end(), is_unproven);
  if (static_cast<size_t>(unproven) >= options_.max_unproven) {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(), is_unproven);
    ByteStream::shut_socket(oldest->socket.get());
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(second);
  connection.thread = std::thread([this, &connection, socket = std::move(socket)]() mutable {
    run(connection, std::move(socket));
  });
}

bool ByteServer::prove(Connection& connection) {
  const std::lock_guard lock(mutex_);
  const auto proven = std::count_if(connections_.begin(), connections_.end(),
                                    [](const Connection& c) { return !c.is_over && c.is_proven; });
  connection.is_proven = true;
  return !stopping_ && static_cast<size_t>(proven) < options_.max_proven;
}

void ByteServer::run(Connection& connection, Fd socket) {
  auto stream = ByteStream::accept(std::move(socket), {.host = "a peer",
                                                       .port = 0,
                                                       .token = options_.token,
                                                       .tls = options_.tls,
                                                       .limit = options_.limit});
  if (stream && prove(connection)) serve_(**stream);
  ByteStream::shut_socket(connection.socket.get());
  const std::lock_guard lock(mutex_);
  connection.is_over = true;
}

}  // namespace shanty::net
