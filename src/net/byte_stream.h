#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"

namespace shanty::net {

// A blocking connection for much data between two programs that know a token: TLS 1.3 with the key
// of the token, or, meant for loopback, the token itself in front and nothing else.
//
// The program must ignore SIGPIPE: OpenSSL writes to sockets without MSG_NOSIGNAL.
//
// One thread writes and one reads, the same one or two without TLS; shut() may come from any.
class ByteStream {
 public:
  struct Options {
    std::string host;
    uint16_t port = 0;
    std::string token;
    bool tls = false;
    Duration limit = std::chrono::seconds(30);  // in which the peer must move at least a byte
  };
  // Proves the token to the other end, which proves it too with TLS.
  static Result<std::unique_ptr<ByteStream>> connect(const Options& options);
  // The other end's side of that, on a socket that was accepted.
  static Result<std::unique_ptr<ByteStream>> accept(Fd socket, const Options& options);
  ~ByteStream();

  Status write(std::string_view bytes);
  // Exactly `size` bytes; an end before that is an error.
  Status read(char* out, size_t size);
  // What is under way and what comes fails soon.
  void shut() { shut_socket(socket_.get()); }
  static void shut_socket(int socket);

 private:
  struct Tls;
  ByteStream(Fd socket, std::string peer);
  Status begin_tls(const Options& options, bool is_server);
  Error failed(const char* what) const;

  Fd socket_;
  std::string peer_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace shanty::net
