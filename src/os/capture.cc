#include "os/capture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"

namespace shanty {
namespace {

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Reads until the end, a limit or a failure; the error says which.
Status read_output(int fd, const CaptureLimits& limits, std::string& output) {
  const TimePoint deadline = system_clock().now() + limits.time;
  char buffer[16384];
  for (;;) {
    const Duration left = std::max(Duration(0), deadline - system_clock().now());
    pollfd watched{fd, POLLIN, 0};
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = ::poll(&watched, 1, static_cast<int>(left_ms));
    if (ready < 0 && errno != EINTR) return errno_error("waiting for its output");
    if (ready == 0)
      return Error{"it did not end within " + format_duration(to_seconds(limits.time))};
    if (ready < 0) continue;
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_error("reading its output");
    if (size == 0) return {};
    output.append(buffer, static_cast<size_t>(size));
    if (output.size() > limits.output_bytes) {
      return Error{"it wrote more than " + format_bytes(limits.output_bytes)};
    }
  }
}

}  // namespace

Result<Captured> run_captured(SpawnOptions options, const CaptureLimits& limits) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return errno_error("cannot make a pipe");
  const Fd read_end(fds[0]);
  Fd write_end(fds[1]);
  options.stdout_fd = write_end.get();
  const std::string name = options.argv.empty() ? "" : options.argv.front();
  const pid_t pid = TRY(spawn(options));
  write_end.reset();
  Captured captured;
  const Status read = read_output(read_end.get(), limits, captured.output);
  if (!read.ok()) ::kill(pid, SIGKILL);
  const int status = wait_for(pid);
  if (!read.ok()) return Error{"running " + name + ": " + read.error().message};
  if (WIFSIGNALED(status)) captured.signal = WTERMSIG(status);
  if (WIFEXITED(status)) captured.exit_code = WEXITSTATUS(status);
  return captured;
}

}  // namespace shanty
