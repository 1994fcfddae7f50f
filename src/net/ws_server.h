#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace boost::asio {
class io_context;
}

namespace shanty::net {

// Names one accepted connection; never used twice by one server, never 0.
using ConnId = uint64_t;

// Accepts WebSocket connections of peers that prove they know the token. What anybody else sends
// costs a bounded amount of memory for a bounded time and reaches no handler but on_rejected.
//
// Everything runs on the thread that runs `io`. Handlers are called from there, never from inside
// a call of the server's own functions; they may call any of them and may destroy the server.
class WsServer {
 public:
  struct Options {
    std::string host;   // name or address to listen on; "" = all interfaces
    uint16_t port = 0;  // 0 = any free one
    std::string token;
    bool tls = false;
    size_t max_message_bytes = size_t{4} << 20;
    size_t max_queued_bytes = size_t{16} << 20;  // per connection; a slower reader is closed
    // Connections that have not proven the token yet. One more pushes out the oldest of the
    // address that holds the most.
    size_t max_unauthenticated = 256;
    Duration handshake_limit = std::chrono::seconds(5);
    Duration idle_limit = std::chrono::seconds(30);           // between two messages of a peer
    Duration rejection_note_after = std::chrono::seconds(1);  // the first of on_rejected's pauses
  };

  struct Handlers {
    // `peer_address` is numeric and without port.
    std::function<void(ConnId, const std::string& peer_address)> on_open;
    std::function<void(ConnId, std::string_view message)> on_message;
    // Once for each on_open, also after close(); no on_message for this id follows.
    std::function<void(ConnId, const std::string& reason)> on_close;
    // At once, but at least 1, 2, 4 ... 60 s after the call before; `count` connections were turned
    // away since that, this is the latest.
    std::function<void(const std::string& peer_address, const std::string& why, uint64_t count)>
        on_rejected;
  };

  // Listens with SO_REUSEADDR. `io` must outlive the server. `*address_in_use` tells
  // whether the error is that another socket listens there.
  static Result<std::unique_ptr<WsServer>> listen(boost::asio::io_context& io, Options options,
                                                  Handlers handlers,
                                                  bool* address_in_use = nullptr);
  // Drops all connections at once without calling a handler.
  ~WsServer();
  WsServer(const WsServer&) = delete;
  WsServer& operator=(const WsServer&) = delete;

  uint16_t port() const;
  // Queues one text message (UTF-8). An unknown or closed id is ignored.
  void send(ConnId id, std::string message);
  // Sends what is queued, says goodbye with `reason`, closes; by force after 6 s.
  void close(ConnId id, std::string_view reason);
  // Stops listening and closes every connection as close() does. No handler is called any more.
  // `done` (may be empty) is called when the last connection is gone. Once.
  void stop(std::function<void()> done = {});
  // Connections turned away so far.
  uint64_t rejected() const;
  size_t connection_count() const;

 private:
  struct Impl;
  explicit WsServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with the operations in flight
};

}  // namespace shanty::net
