#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "net/ws_stream.h"

namespace shanty::net {

void prepare_socket(boost::asio::ip::tcp::socket& socket) {
  const int fd = socket.native_handle();
  const int on = 1;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kUnacknowledgedLimit);
  const auto limit_ms = static_cast<unsigned>(limit.count());
  // Asio opens its sockets without close-on-exec, and workers must not inherit them.
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

}  // namespace shanty::net
