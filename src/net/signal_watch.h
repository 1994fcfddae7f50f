#pragma once

#include <functional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

namespace shanty::net {

// Hands this process's signals to its loop. Runs on the loop's thread and has to outlive what it
// still has in the loop.
class SignalWatch {
 public:
  // From here on these signals end nothing any more; those that come before start() wait for it.
  SignalWatch(boost::asio::io_context& io, const std::vector<int>& signals);

  // Calls `on_signal` from the loop, once for each signal.
  void start(std::function<void(int signal)> on_signal);
  // `on_signal` is not called any more, and the loop ends without another signal, also when some
  // have arrived that were not handed over yet. May be called from `on_signal`.
  void stop();

 private:
  void wait();

  boost::asio::signal_set signals_;
  std::function<void(int)> on_signal_;
  bool stopped_ = false;
};

}  // namespace shanty::net
