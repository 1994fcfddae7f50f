#include "follow/interrupt.h"

#include <csignal>
#include <ctime>

namespace shanty::follow {
namespace {

constexpr timespec kLookEvery{.tv_sec = 0, .tv_nsec = 50'000'000};

sigset_t caught() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = caught();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this](const std::stop_token& over) {
    const sigset_t waited = caught();
    while (!over.stop_requested()) {
      const int signal = ::sigtimedwait(&waited, nullptr, &kLookEvery);
      if (signal <= 0) continue;
      int none = 0;
      signal_.compare_exchange_strong(none, signal);
      stop_.request_stop();
    }
  });
}

Interrupt::~Interrupt() {
  thread_.request_stop();
  thread_.join();
  const sigset_t set = caught();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace shanty::follow
