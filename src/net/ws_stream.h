#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace boost::asio::ssl {
class context;
}

namespace shanty::net {

// How long close() may take to send what is queued, and then for its goodbye to be answered.
inline constexpr Duration kFlushLimit = std::chrono::seconds(5);
inline constexpr Duration kCloseLimit = std::chrono::seconds(1);
// The kernel gives a connection up when what was sent is not acknowledged for this long.
inline constexpr Duration kUnacknowledgedLimit = std::chrono::seconds(10);
// All that a peer may send before it has proven the token.
inline constexpr size_t kMaxHandshakeBytes = size_t{16} << 10;

// How a connection ended.
struct WsEnd {
  std::string reason;
  // The server refused this client, or is none of ours: trying again soon will not help.
  bool refused = false;
};

// One WebSocket connection over a connected socket: the server's or the client's end, plain or
// TLS. The base of WsServer and WsClient; same thread rules as theirs.
class WsStream {
 public:
  struct Options {
    std::string token;
    boost::asio::ssl::context* tls = nullptr;  // null = plain; outlives the stream
    std::string host_header;                   // of a client
    size_t max_message_bytes = 0;
    size_t max_queued_bytes = 0;
    Duration handshake_limit = {};
    Duration idle_limit = {};  // zero = none
  };

  // Called from the loop, never from inside a call of the stream's functions.
  struct Events {
    std::function<void()> opened;  // both ends know the token
    std::function<void(std::string_view)> message;
    std::function<void(const WsEnd&)> ended;  // once and last, unless dropped before
  };

  static std::shared_ptr<WsStream> accepted(boost::asio::ip::tcp::socket socket, Options options,
                                            Events events);
  static std::shared_ptr<WsStream> connected(boost::asio::ip::tcp::socket socket, Options options,
                                             Events events);
  virtual ~WsStream() = default;

  virtual void start() = 0;
  // False, and the message is gone, when not open or too much is queued (which ends the stream).
  virtual bool send(std::string message) = 0;
  // Sends what is queued, says goodbye, ends with `reason`. No message event follows.
  virtual void close(std::string_view reason) = 0;
  // Ends at once; no event follows.
  virtual void drop() = 0;
};

// Close-on-exec, no delay, kUnacknowledgedLimit: what each socket of ours needs. Best effort.
void prepare_socket(boost::asio::ip::tcp::socket& socket);

}  // namespace shanty::net
