#include "run/log_view.h"

#include <deque>
#include <utility>

#include <fmt/format.h>

#include "base/units.h"

namespace shanty {
namespace {

constexpr size_t kMaxBatchBytes = 64 * 1024;
constexpr int kPrefixColours[] = {36, 33, 32, 35, 34, 96, 93, 92};

LogMergeOptions merge_options(const LogViewOptions& options) {
  LogMergeOptions merge = options.merge;
  merge.split_carriage_returns = options.terminal;
  if (options.terminal && merge.follow) merge.max_behind_bytes = LogView::kMaxBehindBytes;
  // A filter may leave any number of lines out, so the last ones that pass can be anywhere.
  if (!options.keep && !options.only_stream) merge.tail_lines = options.tail_lines;
  return merge;
}

bool wants_prefix(const LogViewOptions& options, int world_size) {
  switch (options.prefix) {
    case LogPrefix::kAuto:
      return world_size != 1;
    case LogPrefix::kAlways:
      return true;
    case LogPrefix::kNever:
      return false;
  }
  return true;
}

// "[rank 3] ", "[rank 0-7] ", "[5 ranks: 0-3,7] "
std::string rank_prefix(const std::vector<int>& ranks) {
  const std::string list = format_ranks(ranks);
  if (list.find(',') == std::string::npos) return "[rank " + list + "] ";
  return fmt::format("[{} ranks: {}] ", ranks.size(), list);
}

}  // namespace

class LogView::Impl {
 public:
  Impl(const RunDir& run, LogViewOptions options, const Clock& clock, Sink sink)
      : options_(std::move(options)),
        world_size_(run.info().world_size()),
        prefix_(wants_prefix(options_, world_size_)),
        sink_(std::move(sink)),
        tail_open_(options_.tail_lines > 0),
        merge_(
            run, merge_options(options_), clock, [this](const MergedLine& line) { take(line); },
            [this](uint64_t bytes, const std::string& path) { say_skipped(bytes, path); }) {}

  bool poll() {
    const bool more = merge_.poll();
    if (!more && tail_open_) {
      merge_.emit_held();
      flush_tail();
    }
    flush();
    return more;
  }

  void finish() {
    merge_.finish();
    flush_tail();
    for (const LogStream stream : {LogStream::kStdout, LogStream::kStderr}) close_line(stream);
    flush();
  }

  bool holds_lines() const { return merge_.holds_lines(); }

 private:
  // The line of a stream that was printed without its newline, and whose it is.
  struct OpenLine {
    bool open = false;
    int rank = 0;
    uint64_t generation = 0;
  };

  OpenLine& open_line(LogStream stream) {
    return open_lines_[stream == LogStream::kStderr ? 1 : 0];
  }

  bool verbatim() const { return !prefix_ && !options_.terminal && world_size_ == 1; }

  void take(const MergedLine& line) {
    if (options_.only_stream && line.stream != *options_.only_stream) return;
    if (options_.keep && !options_.keep(line.text)) return;
    if (!tail_open_) return print(line);
    tail_.push_back(line);
    if (tail_.size() > options_.tail_lines) tail_.pop_front();
  }

  void flush_tail() {
    tail_open_ = false;
    for (const MergedLine& line : tail_) print(line);
    tail_.clear();
  }

  void print(const MergedLine& line) {
    OpenLine& open = open_line(line.stream);
    const bool goes_on = open.open && line.continues && open.rank == line.ranks.front() &&
                         open.generation == line.generation;
    if (!goes_on) close_line(line.stream);
    const std::string prefix = prefix_ && !goes_on ? coloured_prefix(line.ranks) : "";
    if (options_.terminal) {
      write(line.stream, prefix + escape_for_terminal(line.text) + "\n");
      return;
    }
    write(line.stream, prefix);
    write(line.stream, line.text);
    if (line.has_newline) write(line.stream, "\n");
    open = {!line.has_newline, line.ranks.front(), line.generation};
  }

  void close_line(LogStream stream) {
    OpenLine& open = open_line(stream);
    if (open.open && !verbatim()) write(stream, "\n");
    open.open = false;
  }

  std::string coloured_prefix(const std::vector<int>& ranks) const {
    if (!options_.colour) return rank_prefix(ranks);
    const auto colour = static_cast<size_t>(ranks.front()) % std::size(kPrefixColours);
    return fmt::format("\x1b[{}m{}\x1b[0m", kPrefixColours[colour], rank_prefix(ranks));
  }

  void say_skipped(uint64_t bytes, const std::string& path) {
    write(LogStream::kStderr, fmt::format("... {} skipped, see {}\n", format_bytes(bytes), path));
  }

  void write(LogStream stream, std::string_view bytes) {
    if (stream != batch_stream_ || batch_.size() > kMaxBatchBytes) flush();
    batch_stream_ = stream;
    batch_ += bytes;
  }

  // Between calls a terminal is always at the start of a line: there, a batch ends with one.
  void flush() {
    if (!batch_.empty()) sink_(batch_stream_, batch_);
    batch_.clear();
  }

  LogViewOptions options_;
  int world_size_;
  bool prefix_;
  Sink sink_;
  bool tail_open_;
  std::deque<MergedLine> tail_;
  OpenLine open_lines_[2];
  std::string batch_;
  LogStream batch_stream_ = LogStream::kStdout;
  LogMerge merge_;
};

LogView::LogView(const RunDir& run, LogViewOptions options, const Clock& clock, Sink sink)
    : impl_(std::make_unique<Impl>(run, std::move(options), clock, std::move(sink))) {}
LogView::~LogView() = default;
bool LogView::poll() { return impl_->poll(); }
void LogView::finish() { impl_->finish(); }
bool LogView::holds_lines() const { return impl_->holds_lines(); }

}  // namespace shanty
