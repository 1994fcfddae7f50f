#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "net/byte_stream.h"

namespace shanty::net {

// Serves ByteStreams, each on a thread of its own. Thread-safe.
class ByteServer {
 public:
  struct Options {
    bool on_loopback = false;  // else on all interfaces
    std::string token;
    bool tls = false;
    Duration limit = std::chrono::seconds(30);  // see ByteStream
    // One more of those that have not proven the token pushes out the oldest of them.
    size_t max_unproven = 32;
    size_t max_proven = 64;  // one more is closed at once
  };
  // The stream is closed when this returns.
  using Serve = std::function<void(ByteStream&)>;

  static Result<std::unique_ptr<ByteServer>> listen(Options options, Serve serve);
  // Closes all connections and waits until each Serve has returned.
  ~ByteServer();
  uint16_t port() const { return port_; }

 private:
  struct Connection {
    Fd socket;  // a second name of the stream's, to shut it whatever became of that
    bool is_proven = false;
    bool is_over = false;
    std::thread thread;
  };

  ByteServer(Options options, Serve serve, Fd listener, uint16_t port);
  void accept_all();
  void begin(Fd socket);
  void run(Connection& connection, Fd socket);
  bool prove(Connection& connection);
  void clear_ended();

  const Options options_;
  const Serve serve_;
  Fd listener_;
  const uint16_t port_;
  std::mutex mutex_;  // guards connections_ and stopping_
  std::list<Connection> connections_;
  bool stopping_ = false;
  std::thread acceptor_;
};

}  // namespace shanty::net
