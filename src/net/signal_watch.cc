#include "net/signal_watch.h"

#include <utility>

namespace shanty::net {

SignalWatch::SignalWatch(boost::asio::io_context& io, const std::vector<int>& signals)
    : signals_(io) {
  for (const int signal : signals) signals_.add(signal);
}

void SignalWatch::start(std::function<void(int)> on_signal) {
  on_signal_ = std::move(on_signal);
  wait();
}

void SignalWatch::stop() {
  stopped_ = true;
  signals_.cancel();
}

void SignalWatch::wait() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    // A signal that had arrived before stop() comes without an error.
    if (error || stopped_) return;
    wait();
    on_signal_(signal);
  });
}

}  // namespace shanty::net
