#include "net/parent_watch.h"

#include <utility>

#include <unistd.h>

#include <boost/asio/post.hpp>

#include "os/process.h"

namespace shanty::net {

void ParentWatch::start(pid_t parent, std::function<void()> on_death) {
  if (parent == 0) return;
  on_death_ = std::move(on_death);
  auto pidfd = open_pidfd(parent);
  // Asked after the opening: a number that was given to another process is told apart.
  if (!pidfd || ::getppid() != parent) {
    boost::asio::post(io_, [this] { tell(); });
    return;
  }
  pidfd_.assign(pidfd->release());
  pidfd_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](boost::system::error_code error) {
                      if (!error) tell();
                    });
}

void ParentWatch::stop() {
  on_death_ = nullptr;
  boost::system::error_code ignored;
  pidfd_.close(ignored);
}

void ParentWatch::tell() {
  if (const auto on_death = std::exchange(on_death_, nullptr)) on_death();
}

}  // namespace shanty::net
