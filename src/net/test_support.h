#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "net/ws_client.h"
#include "net/ws_server.h"
#include "os/fd.h"

// What the tests of this directory share: a loop with a patience, a server and a client that
// remember what happened to them, and a raw socket of a stranger.

namespace shanty::net {

using namespace std::chrono_literals;

inline constexpr auto kPatience = 120s;  // only ever used up by what hangs
inline const std::string kToken = "0123456789abcdef0123456789abcdef";
inline const std::string kOtherToken = "fedcba9876543210fedcba9876543210";

// Runs the loop until `done` says so; false when that takes longer than `patience`.
template <typename Done>
bool run_until(boost::asio::io_context& io, Done done,
               std::chrono::steady_clock::duration patience = kPatience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    if (io.stopped()) io.restart();
    io.run_one_for(5ms);
  }
  return true;
}

template <typename Duration>
void run_for(boost::asio::io_context& io, Duration duration) {
  if (io.stopped()) io.restart();
  io.run_for(duration);
}

struct TestServer {
  TestServer(boost::asio::io_context& io, WsServer::Options options) {
    options.host = "127.0.0.1";
    options.token = kToken;
    auto listening = WsServer::listen(io, options, handlers());
    CHECK(listening.ok());
    server = std::move(listening).value();
  }

  WsServer::Handlers handlers() {
    return {.on_open =
                [this](ConnId id, const std::string& peer) {
                  opened.push_back(id);
                  peer_address = peer;
                },
            .on_message =
                [this](ConnId id, std::string_view text) {
                  messages[id].emplace_back(text);
                  if (echo) server->send(id, std::string(text));
                },
            .on_close = [this](ConnId id, const std::string& why) { closed[id] = why; },
            .on_rejected =
                [this](const std::string&, const std::string& why, uint64_t count) {
                  rejections.push_back(why);
                  rejection_count += count;
                }};
  }

  std::unique_ptr<WsServer> server;
  std::vector<ConnId> opened;
  std::string peer_address;
  std::map<ConnId, std::vector<std::string>> messages;
  std::map<ConnId, std::string> closed;
  std::vector<std::string> rejections;
  uint64_t rejection_count = 0;
  bool echo = true;
};

struct TestClient {
  TestClient(boost::asio::io_context& io, WsClient::Options options, std::string token = kToken) {
    if (options.host.empty()) options.host = "127.0.0.1";
    options.token = std::move(token);
    client = std::make_unique<WsClient>(io, options, handlers());
    client->start();
  }

  WsClient::Handlers handlers() {
    return {.on_open = [this] { ++opened; },
            .on_message = [this](std::string_view text) { messages.emplace_back(text); },
            .on_close = [this](const std::string& why) { closed.push_back(why); },
            .on_rejected = [this](const std::string& why) { rejected.push_back(why); }};
  }

  std::unique_ptr<WsClient> client;
  int opened = 0;
  std::vector<std::string> messages;
  std::vector<std::string> closed;
  std::vector<std::string> rejected;
};

// A plain TCP connection that knows nothing.
class Stranger {
 public:
  explicit Stranger(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }

  // As much as the kernel takes now.
  size_t send(std::string_view bytes) {
    const ssize_t size =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return size < 0 ? 0 : static_cast<size_t>(size);
  }

  // Takes what has come; true once the other end has closed.
  bool closed() {
    char buffer[4096];
    for (;;) {
      const ssize_t size = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (size == 0 || (size < 0 && errno != EAGAIN)) return true;
      if (size < 0) return false;
      received.append(buffer, static_cast<size_t>(size));
    }
  }

  std::string received;

 private:
  Fd socket_;
  bool connected_ = false;
};

}  // namespace shanty::net
