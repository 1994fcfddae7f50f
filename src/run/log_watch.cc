#include "run/log_watch.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "os/fd.h"

namespace shanty {
namespace {

constexpr Duration kSleepWithoutInotify = std::chrono::milliseconds(50);
// Output that comes all the time wakes the reader no more often than this.
constexpr Duration kGatherFor = std::chrono::milliseconds(10);
constexpr size_t kWatchedGenerations = 2;
constexpr uint32_t kMask = IN_CREATE | IN_MODIFY | IN_MOVED_TO;

class SleepWatch final : public LogWatch {
 public:
  void wait(Duration timeout) override {
    std::this_thread::sleep_for(std::min(timeout, kSleepWithoutInotify));
  }
};

class InotifyWatch final : public LogWatch {
 public:
  InotifyWatch(Fd fd, RunDir run) : fd_(std::move(fd)), run_(std::move(run)) {}

  void wait(Duration timeout) override {
    if (!watch_directories()) return SleepWatch().wait(timeout);
    pollfd entry{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const auto timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    if (::poll(&entry, 1, static_cast<int>(timeout_ms)) <= 0) return;
    std::this_thread::sleep_for(std::min(timeout, kGatherFor));
    char discarded[16 * 1024];
    while (::read(fd_.get(), discarded, sizeof(discarded)) > 0) {
    }
  }

 private:
  // Watching a directory twice is one watch.
  bool watch_directories() {
    if (::inotify_add_watch(fd_.get(), run_.logs_dir().c_str(), kMask) < 0) return false;
    const std::vector<uint64_t> generations = run_.generations("logs");
    const size_t skip = generations.size() - std::min(generations.size(), kWatchedGenerations);
    for (size_t i = skip; i < generations.size(); ++i) {
      const std::string log = run_.log(generations[i], 0);
      const std::string directory = log.substr(0, log.rfind('/'));
      if (::inotify_add_watch(fd_.get(), directory.c_str(), kMask) < 0) return false;
    }
    return true;
  }

  Fd fd_;
  RunDir run_;
};

}  // namespace

std::unique_ptr<LogWatch> watch_logs(const RunDir& run) {
  Fd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd.valid()) return std::make_unique<SleepWatch>();
  return std::make_unique<InotifyWatch>(std::move(fd), run);
}

}  // namespace shanty
