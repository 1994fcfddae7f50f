#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "run/line_splitter.h"
#include "run/rank_log.h"
#include "run/run_dir.h"

namespace shanty {

// A line of one or more ranks, as the merge hands it out.
struct MergedLine {
  int64_t unix_ns = 0;
  uint64_t generation = 0;
  LogStream stream = LogStream::kStdout;
  std::vector<int> ranks;   // ascending, at least one
  std::string text;         // without the newline
  bool has_newline = true;  // false: a piece of a giant line, or a last line without its newline
  bool continues = false;   // goes on a giant line whose earlier pieces came before
};

struct LogMergeOptions {
  std::vector<int> ranks;  // empty = all
  // Leaves out what it says no to, before equal lines are folded; empty = nothing.
  std::function<bool(int rank, LogStream stream)> wants;
  uint64_t generation = 0;  // 0 = all, one after the other
  bool follow = false;      // more may come: hold lines for the window, never end by itself
  bool fold = true;         // equal lines of several ranks become one
  Duration fold_window = std::chrono::milliseconds(200);
  bool split_carriage_returns = false;  // for terminals, see LineSplitter
  uint64_t max_behind_bytes = 0;        // per rank; more is skipped with a word; 0 = never skip
  uint64_t tail_lines = 0;       // start where the last so many lines of each rank start; 0 = all
  uint64_t from_generation = 0;  // leave out generations before this one
};

// Merges the logs of a run's ranks by time into lines. New ranks and generations are found while
// following. Memory is bounded by kMaxHeldBytes and a few chunks per rank. One thread.
class LogMerge {
 public:
  static constexpr size_t kMaxHeldBytes = 8 * 1024 * 1024;
  static constexpr size_t kMaxQueuedBytes = 64 * 1024 * 1024;  // read, not merged, all ranks
  static constexpr uint64_t kKeepWhenSkippingBytes = 256 * 1024;
  static constexpr Duration kMaxOwnerWait = std::chrono::seconds(1);
  static constexpr Duration kStaleAfter = std::chrono::seconds(2);

  using Emit = std::function<void(const MergedLine&)>;
  // Output was passed over: how much, of which file.
  using Skipped = std::function<void(uint64_t bytes, const std::string& log_path)>;

  LogMerge(RunDir run, LogMergeOptions options, const Clock& clock, Emit emit, Skipped skipped);
  ~LogMerge();
  LogMerge(const LogMerge&) = delete;
  LogMerge& operator=(const LogMerge&) = delete;

  // Reads a bounded amount of what is new and emits what is due. True: more is ready, call again at
  // once; false: wait for output or for the fold window.
  bool poll();
  // The run is over: reads all that is left, emits all that is held, unfinished lines too.
  void finish();
  // Emits what is held without waiting for other ranks to join.
  void emit_held() { emit_due(true); }
  bool holds_lines() const { return !held_.empty(); }

 private:
  struct Source;
  struct Group {
    MergedLine line;
    TimePoint arrived;
  };

  void discover();
  void open_generation(uint64_t generation);
  void open_source(uint64_t generation, int rank, LogStream stream);
  void read_sources();
  bool wants_to_read() const;
  void read_source(Source& source, size_t limit_bytes);
  void merge_queued();
  void take_from_owner();
  void take_one(Source& source);
  void place(Source& source, LogStream stream, SplitLine line);
  void hold(MergedLine line);
  bool join_group(Source& source, LogStream stream, const SplitLine& line);
  bool nobody_can_join_front() const;
  bool front_is_due() const;
  void emit_due(bool everything);
  void emit_front();
  void close_finished_sources();
  bool is_finished(const Source& source) const;
  void finish_source(Source& source);
  bool all_caught_up() const;
  bool wants_rank(int rank) const;

  RunDir run_;
  LogMergeOptions options_;
  const Clock& clock_;
  Emit emit_;
  Skipped skipped_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::map<uint64_t, std::set<std::pair<int, LogStream>>> opened_;  // files by generation
  uint64_t current_generation_ = 0;
  // Whose giant line is being handed out: nobody else's lines come between its pieces.
  Source* owner_ = nullptr;
  TimePoint owner_since_;
  std::deque<Group> held_;
  // Running numbers of the groups with this text, ascending.
  std::unordered_map<std::string_view, std::vector<uint64_t>> held_by_text_;
  uint64_t first_held_ = 1;  // running number of held_.front()
  size_t held_bytes_ = 0;
  int64_t last_placed_unix_ns_ = 0;
  bool finishing_ = false;
};

}  // namespace shanty
