#include "cli/output.h"

#include <poll.h>
#include <unistd.h>

#include "os/files.h"

namespace shanty {

bool Output::write(int fd, std::string_view bytes) {
  if (!gone_) gone_ = !write_all(fd, bytes).ok();
  return !gone_;
}

bool Output::reader_gone() {
  pollfd entry{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  if (::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLERR | POLLNVAL)) != 0) gone_ = true;
  return gone_;
}

}  // namespace shanty
