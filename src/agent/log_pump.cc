#include "agent/log_pump.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

namespace shanty {

struct LogPump::Stream {
  Fd pipe;
  LogStream kind = LogStream::kStdout;
  Source* source = nullptr;
  std::string partial;  // an unfinished line, or whole lines held back by the other stream
  TimePoint partial_since;
};

struct LogPump::Source {
  explicit Source(RankLogWriter log) : writer(std::move(log)) {}
  RankLogWriter writer;
  std::array<Stream, 2> streams;
  Stream* mid_line = nullptr;  // the stream whose line is begun in the file and not finished
  TimePoint mid_line_since;
  bool broken = false;
};

namespace {

constexpr int kMaxEpollEvents = 64;

bool ends_line(char c) { return c == '\n' || c == '\r'; }

// The number of leading bytes that make whole lines.
size_t whole_lines(std::string_view bytes) {
  for (size_t size = bytes.size(); size > 0; --size) {
    if (ends_line(bytes[size - 1])) return size;
  }
  return 0;
}

}  // namespace

LogPump::LogPump(std::function<void(std::string)> on_problem)
    : on_problem_(std::move(on_problem)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kMaxPartialLineBytes + kReadBytes) {
  CHECK(epoll_.valid() && wakeup_.valid());
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) == 0);
  thread_ = std::thread([this] { run(); });
}

LogPump::~LogPump() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::eventfd_write(wakeup_.get(), 1);
  thread_.join();
}

void LogPump::add(Fd stdout_pipe, Fd stderr_pipe, RankLogWriter writer) {
  auto source = std::make_unique<Source>(std::move(writer));
  source->streams[0].pipe = std::move(stdout_pipe);
  source->streams[1].pipe = std::move(stderr_pipe);
  source->streams[1].kind = LogStream::kStderr;
  for (Stream& stream : source->streams) {
    stream.source = source.get();
    ::fcntl(stream.pipe.get(), F_SETFL, O_NONBLOCK);
  }
  const std::lock_guard lock(mutex_);
  added_.push_back(std::move(source));
  ::eventfd_write(wakeup_.get(), 1);
}

void LogPump::add_direct(LogStream stream, RankLogWriter writer) {
  const std::lock_guard lock(mutex_);
  added_direct_.push_back({stream, std::move(writer)});
  ::eventfd_write(wakeup_.get(), 1);
}

void LogPump::drain(std::function<void()> done) {
  const std::lock_guard lock(mutex_);
  drain_requests_.push_back(std::move(done));
  ::eventfd_write(wakeup_.get(), 1);
}

void LogPump::run() {
  std::array<epoll_event, kMaxEpollEvents> events{};
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), kMaxEpollEvents, wait_ms());
    take_requests();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    for (int i = 0; i < count; ++i) {
      auto* stream = static_cast<Stream*>(events[static_cast<size_t>(i)].data.ptr);
      if (stream != nullptr) read_stream(*stream);
    }
    flush_waiting(false);
    close_finished();
    look_at_direct_logs();
    if (!draining_.empty()) finish_drain(system_clock().now() >= drain_deadline_);
  }
}

void LogPump::take_requests() {
  eventfd_t value = 0;
  ::eventfd_read(wakeup_.get(), &value);
  const std::lock_guard lock(mutex_);
  for (auto& source : added_) {
    for (Stream& stream : source->streams) {
      epoll_event event{.events = EPOLLIN, .data = {.ptr = &stream}};
      CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.pipe.get(), &event) == 0);
    }
    sources_.push_back(std::move(source));
  }
  added_.clear();
  std::move(added_direct_.begin(), added_direct_.end(), std::back_inserter(direct_));
  added_direct_.clear();
  if (!drain_requests_.empty()) drain_deadline_ = system_clock().now() + kDrainLimit;
  std::move(drain_requests_.begin(), drain_requests_.end(), std::back_inserter(draining_));
  drain_requests_.clear();
}

// Sleeps for ever unless a partial line or a drain waits for its limit, or a direct log for a look.
int LogPump::wait_ms() const {
  constexpr int kPollMs = 50;
  if (!draining_.empty()) return kPollMs;
  for (const auto& source : sources_) {
    for (const Stream& stream : source->streams) {
      if (!stream.partial.empty()) return kPollMs;
    }
  }
  if (direct_.empty()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(kLookEvery).count());
}

// Returns how many bytes there were.
size_t LogPump::read_stream(Stream& stream) {
  const size_t held = stream.partial.size();
  std::memcpy(buffer_.data(), stream.partial.data(), held);
  const ssize_t n = ::read(stream.pipe.get(), buffer_.data() + held, kReadBytes);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) hang_up(stream);
    return 0;
  }
  if (n == 0) {
    hang_up(stream);
    return 0;
  }
  write_lines(stream, {buffer_.data(), held + static_cast<size_t>(n)});
  return static_cast<size_t>(n);
}

// All that a full pipe holds, and no more: somebody may be writing on. The limit of a drain also
// passes while this thread waits for a slow disk or for a processor, with the last words unread.
void LogPump::read_rest(Stream& stream) {
  size_t left = kPipeBytes;
  while (stream.pipe.valid() && left > 0) {
    const size_t size = read_stream(stream);
    if (size == 0) return;
    left -= std::min(left, size);
  }
}

// Closing alone does not end the watch while a process between fork and exec has the pipe too.
void LogPump::hang_up(Stream& stream) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stream.pipe.get(), nullptr);
  stream.pipe.reset();
}

// Writes the whole lines of `bytes` (what was held back and what was just read) and keeps the rest.
void LogPump::write_lines(Stream& stream, std::string_view bytes) {
  Source& source = *stream.source;
  const bool was_waiting = !stream.partial.empty();
  const bool blocked = source.mid_line != nullptr && source.mid_line != &stream;
  size_t ready = blocked ? 0 : whole_lines(bytes);
  if (bytes.size() - ready > kMaxPartialLineBytes) ready = bytes.size();
  if (ready > 0) write(source, stream, bytes.substr(0, ready));
  stream.partial.assign(bytes.substr(ready));
  if (!was_waiting || ready > 0) stream.partial_since = system_clock().now();
}

void LogPump::flush_waiting(bool everything) {
  const TimePoint now = system_clock().now();
  for (auto& source : sources_) {
    for (Stream& stream : source->streams) {
      if (stream.partial.empty()) continue;
      const bool blocked = source->mid_line != nullptr && source->mid_line != &stream &&
                           source->mid_line->pipe.valid() &&
                           now - source->mid_line_since < kHoldLimit;
      const size_t lines = whole_lines(stream.partial);
      const bool overdue = now - stream.partial_since >= kPartialLineLimit;
      if (!everything && stream.pipe.valid() && (blocked || (lines == 0 && !overdue))) continue;
      const std::string bytes = std::exchange(stream.partial, {});
      write(*source, stream, bytes);
    }
  }
}

void LogPump::write(Source& source, Stream& stream, std::string_view bytes) {
  if (ends_line(bytes.back())) {
    if (source.mid_line == &stream) source.mid_line = nullptr;
  } else {
    source.mid_line = &stream;
    source.mid_line_since = system_clock().now();
  }
  if (source.broken) return;
  const auto status = source.writer.append(stream.kind, bytes, system_clock().unix_time_ns());
  if (status.ok()) return;
  source.broken = true;
  on_problem_(status.error().message + "; further output of this rank is dropped");
}

void LogPump::close_finished() {
  std::erase_if(sources_, [](const std::unique_ptr<Source>& source) {
    for (const Stream& stream : source->streams) {
      if (stream.pipe.valid() || !stream.partial.empty()) return false;
    }
    if (!source->broken) {
      discard(source->writer.finish(system_clock().unix_time_ns()), "readers cope without it");
    }
    return true;
  });
}

void LogPump::look_at_direct_logs() {
  const TimePoint now = system_clock().now();
  if (direct_.empty() || now < next_look_) return;
  next_look_ = now + kLookEvery;
  for (DirectLog& log : direct_) {
    if (log.broken) continue;
    const auto status = log.writer.note_growth(log.stream, system_clock().unix_time_ns());
    if (status.ok()) continue;
    log.broken = true;
    on_problem_(status.error().message + "; this rank's output is kept without its times");
  }
}

void LogPump::close_direct_logs() {
  next_look_ = {};
  look_at_direct_logs();
  for (DirectLog& log : direct_) {
    if (!log.broken) {
      discard(log.writer.finish(system_clock().unix_time_ns()), "readers cope without it");
    }
  }
  direct_.clear();
}

void LogPump::finish_drain(bool expired) {
  if (!sources_.empty() && !expired) return;
  close_direct_logs();
  if (expired) {
    for (auto& source : sources_) {
      for (Stream& stream : source->streams) read_rest(stream);
    }
    flush_waiting(true);
    for (auto& source : sources_) {
      for (Stream& stream : source->streams) hang_up(stream);
    }
    close_finished();
  }
  for (auto& done : std::exchange(draining_, {})) done();
}

}  // namespace shanty
