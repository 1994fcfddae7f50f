#include "agent/checkpoint_host.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"
#include "os/process.h"

namespace shanty {
namespace {

constexpr size_t kNameBytes = 16;
constexpr int kBacklog = 4096;
constexpr size_t kMaxStarts = 20;
constexpr Duration kStartWindow = std::chrono::seconds(60);

Result<Fd> listen_abstract(const std::string& name) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_error("making the checkpoint engine's socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno_error("listening for the checkpoint engine's trainers");
  }
  return fd;
}

}  // namespace

struct CheckpointHost::Listener {
  explicit Listener(boost::asio::io_context& io, Fd fd) : descriptor(io, fd.release()) {}
  ~Listener() {
    boost::system::error_code ignored;
    descriptor.close(ignored);
  }
  boost::asio::posix::stream_descriptor descriptor;
};

CheckpointHost::CheckpointHost(boost::asio::io_context& io, std::function<void(pid_t)> on_started)
    : on_started_(std::move(on_started)), starts_(kMaxStarts, kStartWindow) {
  const std::string name = "shanty-ckpt-" + hex(secure_random_bytes(kNameBytes));
  auto fd = listen_abstract(name);
  if (!fd) return;  // a Checkpointer then starts an engine of its own
  name_ = name;
  listener_ = std::make_unique<Listener>(io, std::move(*fd));
  wait_for_knock();
}

CheckpointHost::~CheckpointHost() = default;

void CheckpointHost::wait_for_knock() {
  listener_->descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                   [this](boost::system::error_code error) {
                                     if (error || pid_ != 0) return;
                                     const Status started = start();
                                     if (started.ok()) return;
                                     fmt::print(stderr, "shanty: {}\n", started.error().message);
                                     // Those that knocked must hear of it.
                                     close();
                                   });
}

Status CheckpointHost::start() {
  if (!starts_.allow(system_clock().now())) {
    return Error{"the checkpoint engine ends as often as it is started; it is not started again"};
  }
  const int fd = listener_->descriptor.native_handle();
  const auto engine =
      spawn({.argv = {TRY(own_executable()), "ckpt-engine", "--listen-fd", std::to_string(fd),
                      "--parent-pid", std::to_string(::getpid())},
             .this_program = true,
             .env = current_environment(),
             .inherited_fds = {fd},
             .new_session = true});
  if (!engine) return Error{"starting the checkpoint engine: " + engine.error().message};
  pid_ = *engine;
  on_started_(pid_);
  return {};
}

void CheckpointHost::ended() {
  pid_ = 0;
  if (listener_) wait_for_knock();
}

void CheckpointHost::close() { listener_.reset(); }

void CheckpointHost::finish() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  if (const auto pidfd = open_pidfd(pid_); pidfd.ok()) {
    pollfd end{pidfd->get(), POLLIN, 0};
    ::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(kFinishLimit).count()));
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace shanty
