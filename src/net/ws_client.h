#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace boost::asio {
class io_context;
}

namespace shanty::net {

// One WebSocket connection to a server, made again for ever until stop(). For level-triggered
// protocols: what is lost with a connection is not sent again.
//
// Everything runs on the thread that runs `io`. Handlers are called from there, never from inside
// a call of the client's own functions; they may call any of them and may destroy the client.
class WsClient {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    std::string token;
    bool tls = false;
    size_t max_message_bytes = size_t{4} << 20;
    size_t max_queued_bytes = size_t{16} << 20;        // a slower server is dropped
    Duration connect_limit = std::chrono::seconds(5);  // to connect, and again for the handshake
    Duration backoff_min = std::chrono::milliseconds(20);
    Duration backoff_max = std::chrono::seconds(1);
    Duration rejected_backoff = std::chrono::seconds(5);  // after on_rejected
  };

  struct Handlers {
    std::function<void()> on_open;
    std::function<void(std::string_view message)> on_message;
    // Once for each on_open, except after stop().
    std::function<void(const std::string& reason)> on_close;
    // The server answered and will not have us (wrong token, or no coordinator at all): a user
    // must act. The client goes on trying slowly; the same reason is told once.
    std::function<void(const std::string& reason)> on_rejected;
  };

  WsClient(boost::asio::io_context& io, Options options, Handlers handlers);
  // Drops the connection at once without calling a handler.
  ~WsClient();
  WsClient(const WsClient&) = delete;
  WsClient& operator=(const WsClient&) = delete;

  // Starts connecting. Once.
  void start();
  // Queues one text message (UTF-8). False, and the message is gone, when not connected.
  bool send(std::string message);
  bool connected() const;
  // The numeric address of this end of the connection, "" when not connected.
  std::string local_address() const;
  // Why the latest attempt to connect failed, for "waiting for ..." messages; "" = none did.
  std::string last_error() const;
  // Sends what is queued, closes (by force after 6 s) and stays closed. No handler is called
  // any more; `done` (may be empty) is called when the connection is gone. Once.
  void stop(std::function<void()> done = {});
  // Fault injection: cuts the connection without a goodbye and stays away that long.
  void drop_for(Duration duration);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the operations in flight
};

}  // namespace shanty::net
