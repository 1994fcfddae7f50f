#include "os/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/files.h"

namespace shanty {
namespace {

constexpr size_t kProcFileLimitBytes = 1 << 20;
constexpr size_t kMaxDescendants = 1 << 16;

// What raise_descriptor_limit() found. As the limit itself, it belongs to the whole process.
std::optional<rlim_t> given_descriptor_limit;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

// Everything the child needs, prepared before the fork: the child only makes system calls.
struct ChildPlan {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::vector<std::string> candidates;  // paths to try, in order
  std::vector<char*> argv_pointers;
  std::vector<char*> env_pointers;
  char* pid_digits = nullptr;  // where to write the pid in `env`
  const SpawnOptions* options = nullptr;
  pid_t parent = 0;
  int error_fd = -1;
};

constexpr size_t kPidDigits = 10;

std::vector<std::string> exec_candidates(const std::string& program,
                                         const std::vector<std::string>& env) {
  if (program.find('/') != std::string::npos) return {program};
  const std::string* path = find_variable(env, "PATH");
  std::string_view rest = path != nullptr ? std::string_view(*path).substr(5) : "/usr/bin:/bin";
  std::vector<std::string> out;
  while (true) {
    const size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    out.push_back((directory.empty() ? "." : std::string(directory)) + "/" + program);
    if (colon == std::string_view::npos) return out;
    rest.remove_prefix(colon + 1);
  }
}

void write_pid(char* digits) {
  long pid = ::getpid();
  size_t count = 0;
  std::array<char, kPidDigits> reversed{};
  do {
    reversed[count++] = static_cast<char>('0' + pid % 10);
    pid /= 10;
  } while (pid > 0);
  for (size_t i = 0; i < count; ++i) digits[i] = reversed[count - 1 - i];
  digits[count] = '\0';
}

[[noreturn]] void fail_in_child(int error_fd) {
  const int error_number = errno;
  if (::write(error_fd, &error_number, sizeof error_number) < 0) ::_exit(126);
  ::_exit(127);
}

void close_other_descriptors(const ChildPlan& plan) {
  // Mark all close-on-exec, then clear the flag on those that are handed down.
  ::syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  for (const int fd : plan.options->inherited_fds) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0) ::fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC);
  }
}

void reset_descriptor_limit() {
  rlimit limit{};
  if (!given_descriptor_limit || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(*given_descriptor_limit, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(ChildPlan& plan) {
  const SpawnOptions& options = *plan.options;
  reset_signals();
  if (options.new_session) ::setsid();
  if (options.parent_death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, options.parent_death_signal);
    if (::getppid() != plan.parent) ::raise(options.parent_death_signal);
  }
  if (options.stdout_fd >= 0) ::dup2(options.stdout_fd, 1);
  if (options.stderr_fd >= 0) ::dup2(options.stderr_fd, 2);
  if (!options.working_dir.empty() && ::chdir(options.working_dir.c_str()) != 0) {
    fail_in_child(plan.error_fd);
  }
  if (plan.pid_digits != nullptr) write_pid(plan.pid_digits);
  close_other_descriptors(plan);
  reset_descriptor_limit();
  int remembered = ENOENT;
  for (const std::string& path : plan.candidates) {
    ::execve(path.c_str(), plan.argv_pointers.data(), plan.env_pointers.data());
    if (errno != ENOENT && errno != ENOTDIR) remembered = errno;
  }
  errno = remembered;
  fail_in_child(plan.error_fd);
}

ChildPlan make_plan(const SpawnOptions& options) {
  ChildPlan plan;
  plan.options = &options;
  plan.argv = options.argv;
  plan.env = options.env;
  plan.parent = ::getpid();
  if (!options.pid_variable.empty()) {
    set_variable(plan.env, options.pid_variable, std::string(kPidDigits, ' '));
  }
  plan.candidates = exec_candidates(options.argv.front(), plan.env);
  // In the child, before its exec, still this program.
  if (options.this_program) plan.candidates.insert(plan.candidates.begin(), "/proc/self/exe");
  plan.argv_pointers = pointers(plan.argv);
  plan.env_pointers = pointers(plan.env);
  if (!options.pid_variable.empty()) {
    const std::string prefix = options.pid_variable + "=";
    for (char* entry : plan.env_pointers) {
      if (entry != nullptr && std::strncmp(entry, prefix.c_str(), prefix.size()) == 0) {
        plan.pid_digits = entry + prefix.size();
      }
    }
  }
  return plan;
}

std::vector<pid_t> parse_pids(std::string_view text) {
  std::vector<pid_t> out;
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(p, end, pid);
    if (error == std::errc()) out.push_back(pid);
    p = next + 1;
  }
  return out;
}

std::vector<pid_t> children_of(const std::string& process) {
  std::vector<pid_t> out;
  const std::string tasks = "/proc/" + process + "/task";
  const auto threads = list_directory(tasks);
  if (!threads) return out;
  for (const std::string& thread : *threads) {
    const auto text = read_file(tasks + "/" + thread + "/children", kProcFileLimitBytes);
    if (!text) continue;
    for (const pid_t pid : parse_pids(*text)) out.push_back(pid);
  }
  return out;
}

}  // namespace

Result<pid_t> spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return Error{"starting a process: no command was given"};
  const std::string what = "starting " + options.argv.front();
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return errno_error(what + ": pipe");
  Fd read_end(pipe_fds[0]);
  Fd write_end(pipe_fds[1]);
  ChildPlan plan = make_plan(options);
  plan.error_fd = write_end.get();

  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(what + ": fork");
  if (pid == 0) run_child(plan);

  write_end.reset();
  int child_errno = 0;
  ssize_t n = 0;
  do {
    n = ::read(read_end.get(), &child_errno, sizeof child_errno);
  } while (n < 0 && errno == EINTR);
  if (n == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  return errno_error(what, child_errno);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (!given_descriptor_limit) given_descriptor_limit = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Fd> open_pidfd(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  if (!fd.valid()) return errno_error("pidfd of process " + std::to_string(pid));
  return fd;
}

Status become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return errno_error("PR_SET_CHILD_SUBREAPER");
  return {};
}

std::vector<ReapedChild> reap_children() {
  std::vector<ReapedChild> out;
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return out;
    ReapedChild child{.pid = pid};
    if (WIFSIGNALED(status)) child.signal = WTERMSIG(status);
    if (WIFEXITED(status)) child.exit_code = WEXITSTATUS(status);
    out.push_back(child);
  }
}

std::vector<pid_t> list_children() { return children_of("self"); }

std::vector<pid_t> list_descendants(pid_t pid) {
  std::vector<pid_t> out = children_of(std::to_string(pid));
  for (size_t i = 0; i < out.size() && out.size() < kMaxDescendants; ++i) {
    for (const pid_t child : children_of(std::to_string(out[i]))) out.push_back(child);
  }
  return out;
}

std::vector<std::string> current_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

void set_variable(std::vector<std::string>& env, const std::string& name,
                  const std::string& value) {
  const std::string prefix = name + "=";
  std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(prefix); });
  env.push_back(prefix + value);
}

const std::string* find_variable(const std::vector<std::string>& env, const std::string& name) {
  const std::string prefix = name + "=";
  for (const std::string& entry : env) {
    if (entry.starts_with(prefix)) return &entry;
  }
  return nullptr;
}

Result<std::string> own_executable() {
  std::array<char, 4096> buffer{};
  const ssize_t n = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (n <= 0) return errno_error("reading /proc/self/exe");
  return std::string(buffer.data(), static_cast<size_t>(n));
}

std::string host_name() {
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) return "unknown";
  return buffer.data();
}

}  // namespace shanty
