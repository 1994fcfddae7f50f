#include "ckpt/engine.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "ckpt/session.h"
#include "ckpt/vfs.h"
#include "os/process.h"

namespace shanty::ckpt {
namespace {

constexpr int kMaxSessions = 4096;
constexpr Duration kFinishLimit = std::chrono::minutes(2);
constexpr Duration kBreather = std::chrono::milliseconds(50);

// Readable once SIGTERM has come. Blocked before any thread starts, so in all of them.
Result<Fd> stop_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!fd.valid()) return errno_error("waiting for SIGTERM (signalfd)");
  return fd;
}

}  // namespace

int run_engine(const EngineOptions& options) {
  raise_descriptor_limit();
  std::signal(SIGINT, SIG_IGN);  // a Ctrl-C is for the trainers
  const auto stop = stop_descriptor();
  if (!stop) {
    fmt::print(stderr, "shanty ckpt-engine: {}\n", stop.error().message);
    return 3;
  }
  const auto parent = open_pidfd(options.parent_pid);
  if (!parent) {
    fmt::print(stderr, "shanty ckpt-engine: {}\n", parent.error().message);
    return 3;
  }
  // Never destroyed: sessions may still hold them when this function returns.
  static Stores& stores = *new Stores(posix_vfs());  // NOLINT
  static std::atomic<int> sessions = 0;
  while (true) {
    pollfd waits[] = {
        {options.listen_fd, POLLIN, 0}, {parent->get(), POLLIN, 0}, {stop->get(), POLLIN, 0}};
    if (::poll(waits, 3, -1) < 0 && errno != EINTR) break;
    if (waits[0].revents != 0) {
      Fd connection(::accept4(options.listen_fd, nullptr, nullptr, SOCK_CLOEXEC));
      // Out of descriptors: who waits at the door stays there until one is free.
      if (!connection.valid()) std::this_thread::sleep_for(kBreather);
      if (!connection.valid() || sessions >= kMaxSessions) continue;
      ++sessions;
      std::thread([fd = std::move(connection)]() mutable {
        run_session(posix_vfs(), stores, std::move(fd));
        --sessions;
      }).detach();
    } else if (waits[1].revents != 0 || waits[2].revents != 0) {
      break;
    }
  }
  stores.finish(kFinishLimit);
  std::fflush(nullptr);
  ::_exit(0);
}

}  // namespace shanty::ckpt
