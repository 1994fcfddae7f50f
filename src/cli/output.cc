#include "cli/output.h"

#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace shanty {
namespace {

void wait_writable(int fd) {
  pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
  ::poll(&entry, 1, -1);
}

}  // namespace

bool Output::write(int fd, std::string_view bytes) {
  while (!gone_ && !bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      wait_writable(fd);
    } else if (errno != EINTR) {
      gone_ = true;
    }
  }
  return !gone_;
}

bool Output::reader_gone() {
  pollfd entry{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  if (::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLERR | POLLNVAL)) != 0) gone_ = true;
  return gone_;
}

}  // namespace shanty
