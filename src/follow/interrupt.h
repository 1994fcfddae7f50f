#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace shanty::follow {

// Turns SIGINT, SIGTERM and SIGHUP into a stop token instead of the end of the program. Made before
// other threads are, which then leave these signals to it. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  // The first signal that came; 0 = none.
  int signal() const { return signal_; }

 private:
  std::stop_source stop_;
  std::atomic<int> signal_ = 0;
  std::jthread thread_;
};

}  // namespace shanty::follow
