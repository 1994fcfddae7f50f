#include "cli/output.h"

#include <poll.h>
#include <unistd.h>

#include "os/files.h"

namespace shanty {
namespace {

bool lost = false;

bool has_no_reader(int fd) {
  pollfd entry{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLERR | POLLNVAL)) != 0;
}

}  // namespace

bool Output::write(int fd, std::string_view bytes) {
  if (gone_ || write_all(fd, bytes).ok()) return !gone_;
  gone_ = true;
  if (!has_no_reader(fd)) lost = true;
  return false;
}

bool Output::reader_gone() {
  if (has_no_reader(STDOUT_FILENO)) gone_ = true;
  return gone_;
}

bool Output::lost_some() { return lost; }

}  // namespace shanty
