#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "run/log_merge.h"
#include "run/run_dir.h"
#include "run/terminal_text.h"

namespace shanty {

enum class LogPrefix {
  kAuto,  // none when the job has one rank
  kAlways,
  kNever,
};

struct LogViewOptions {
  LogMergeOptions merge;
  LogPrefix prefix = LogPrefix::kAuto;
  bool terminal = false;  // escape control characters, fold redraws, skip when far behind
  bool colour = false;    // a colour per rank in the prefix
  std::optional<LogStream> only_stream;
  std::function<bool(std::string_view line)> keep;  // empty = every line
  uint64_t tail_lines = 0;  // of what is there at the start print only the last lines; 0 = all
};

// The output of a run's ranks as people see it: merged, folded, prefixed. Used by `logs` and by the
// live view of `run`. Bytes go to `sink` in whole lines (a job of one rank without prefix on
// something that is not a terminal: as they are). One thread.
class LogView {
 public:
  static constexpr uint64_t kMaxBehindBytes = 64 * 1024 * 1024;  // terminals only, per rank

  using Sink = std::function<void(LogStream stream, std::string_view bytes)>;

  LogView(const RunDir& run, LogViewOptions options, const Clock& clock, Sink sink);
  ~LogView();

  // Reads a bounded amount of what is new and hands out what is due. True: call again at once;
  // false: wait (see log_watch.h), at most 50 ms while holds_lines().
  bool poll();
  // The run is over: hands out all that is left.
  void finish();
  bool holds_lines() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty
