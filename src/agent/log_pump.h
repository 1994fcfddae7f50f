#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "run/rank_log.h"

namespace shanty {

// Carries the workers' output from their pipes into their log files on a thread of its own, so
// that neither a slow disk nor a flood of output delays the agent, and neither of a rank's two
// streams breaks into a line of the other (as long as that line is finished within kHoldLimit and
// kMaxPartialLineBytes). Bytes are never changed. Memory: one read buffer, plus at most
// kMaxPartialLineBytes a stream.
class LogPump {
 public:
  static constexpr size_t kReadBytes = 256 * 1024;
  static constexpr size_t kMaxPartialLineBytes = 64 * 1024;
  static constexpr Duration kPartialLineLimit = std::chrono::milliseconds(100);
  static constexpr Duration kHoldLimit = std::chrono::seconds(1);
  static constexpr Duration kDrainLimit = std::chrono::seconds(5);
  static constexpr Duration kLookEvery = std::chrono::seconds(1);
  static constexpr int kPipeBytes = 1024 * 1024;

  // `on_problem` is called on the pump's thread, at most once for each log, when a log cannot be
  // written; its output is then read and dropped.
  explicit LogPump(std::function<void(std::string)> on_problem);
  ~LogPump();  // drops what is not read yet
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // Takes over the read ends of a worker's pipes.
  void add(Fd stdout_pipe, Fd stderr_pipe, RankLogWriter writer);
  // A log that the worker writes itself: keeps its index, at most kLookEvery late.
  void add_direct(LogStream stream, RankLogWriter writer);
  // Calls `done` on the pump's thread once every pipe added so far has been read to its end and its
  // log is closed. After kDrainLimit pipes that somebody still holds count as ended with what they
  // contain. For when all writers are dead.
  void drain(std::function<void()> done);

 private:
  struct Source;
  struct Stream;
  struct DirectLog {
    LogStream stream;
    RankLogWriter writer;
    bool broken = false;
  };
  void run();
  void take_requests();
  int wait_ms() const;
  size_t read_stream(Stream& stream);
  void read_rest(Stream& stream);
  void hang_up(Stream& stream);
  void write_lines(Stream& stream, std::string_view bytes);
  void flush_waiting(bool everything);
  void write(Source& source, Stream& stream, std::string_view bytes);
  void close_finished();
  void finish_drain(bool expired);
  void look_at_direct_logs();
  void close_direct_logs();

  std::function<void(std::string)> on_problem_;
  Fd epoll_;
  Fd wakeup_;
  std::mutex mutex_;  // guards the four below; never held across I/O or a callback
  std::vector<std::unique_ptr<Source>> added_;
  std::vector<DirectLog> added_direct_;
  std::vector<std::function<void()>> drain_requests_;
  bool stopping_ = false;

  // The thread's own.
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<DirectLog> direct_;
  TimePoint next_look_;
  std::vector<std::function<void()>> draining_;
  TimePoint drain_deadline_;
  std::vector<char> buffer_;
  std::thread thread_;
};

}  // namespace shanty
