#include "cli/full_screen.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "os/files.h"

namespace shanty {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kEraseToLineEnd = "\x1b[K";
constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr size_t kDefaultRows = 24;

sigset_t leaving_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  return set;
}

void put(std::string_view bytes) {
  discard(write_all(STDOUT_FILENO, bytes), "a terminal that is gone needs no picture");
}

}  // namespace

FullScreen::FullScreen() {
  const sigset_t set = leaving_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (::tcgetattr(STDIN_FILENO, &saved_) == 0) {
    termios raw = saved_;
    raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
    raw_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  put(kEnter);
}

FullScreen::~FullScreen() {
  put(kLeave);
  if (raw_) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
  const sigset_t set = leaving_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

// Every line is erased behind its text, so that nothing flickers.
void FullScreen::draw(std::string_view text) {
  std::string out(kHome);
  const size_t room = rows() - 1;
  for (size_t row = 0; row < room && !text.empty(); ++row) {
    const std::string_view line = text.substr(0, text.find('\n'));
    out += line;
    out += kEraseToLineEnd;
    out += '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  put(out += kEraseBelow);
}

bool FullScreen::wait(Duration timeout) {
  pollfd entries[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                      {.fd = raw_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
  const auto timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  if (::poll(entries, std::size(entries), static_cast<int>(timeout_ms)) <= 0) return true;
  if (entries[0].revents != 0) {
    // Taken, so that it does not come again once it is unblocked.
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof(info)) > 0) return false;
  }
  char key = 0;
  if (entries[1].revents != 0 && ::read(STDIN_FILENO, &key, 1) <= 0) return false;
  return key != 'q';
}

size_t FullScreen::rows() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
  return known ? size.ws_row : kDefaultRows;
}

}  // namespace shanty
