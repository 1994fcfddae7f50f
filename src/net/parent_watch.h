#pragma once

#include <functional>

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace shanty::net {

// Tells when the process that started this one dies. Runs on the loop's thread and has to outlive
// what it still has in the loop.
class ParentWatch {
 public:
  explicit ParentWatch(boost::asio::io_context& io) : io_(io), pidfd_(io) {}

  // Calls `on_death` once, from the loop and never from here, as soon as `parent` is dead or no
  // longer the parent of this process. 0: there is nobody to watch. To be called once.
  void start(pid_t parent, std::function<void()> on_death);
  // `on_death` is not called any more and the loop has nothing left of this.
  void stop();

 private:
  void tell();

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor pidfd_;
  std::function<void()> on_death_;
};

}  // namespace shanty::net
