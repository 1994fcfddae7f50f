#include "run/log_merge.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace shanty {
namespace {

constexpr size_t kMinReadBytes = 16 * 1024;

bool foldable(const SplitLine& line) { return line.has_newline && !line.continues; }

}  // namespace

struct LogMerge::Source {
  Source(uint64_t generation_in, int rank_in, RankLogReader reader_in, bool redraws)
      : generation(generation_in),
        rank(rank_in),
        reader(std::move(reader_in)),
        out(redraws),
        err(redraws) {}

  uint64_t generation;
  int rank;
  RankLogReader reader;
  LineSplitter out;
  LineSplitter err;
  std::deque<std::pair<LogStream, SplitLine>> queue;
  bool caught_up = false;  // the last read found nothing
  bool finished = false;
  TimePoint last_growth;
  uint64_t last_group = 0;  // running number of the group of its last placed line
  LogStream owned_stream = LogStream::kStdout;
};

LogMerge::LogMerge(RunDir run, LogMergeOptions options, const Clock& clock, Emit emit,
                   Skipped skipped)
    : run_(std::move(run)),
      options_(std::move(options)),
      clock_(clock),
      emit_(std::move(emit)),
      skipped_(std::move(skipped)) {}

LogMerge::~LogMerge() = default;

bool LogMerge::poll() {
  discover();
  read_sources();
  merge_queued();
  const bool more = wants_to_read();
  close_finished_sources();
  emit_due(false);
  return more;
}

void LogMerge::finish() {
  finishing_ = true;
  do {
    while (poll()) {
    }
    discover();
  } while (!sources_.empty());
  emit_due(true);
}

bool LogMerge::wants_rank(int rank) const {
  return options_.ranks.empty() ||
         std::find(options_.ranks.begin(), options_.ranks.end(), rank) != options_.ranks.end();
}

bool LogMerge::all_caught_up() const {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return source->caught_up && source->queue.empty(); });
}

// Generations follow each other on a node, so the next one is opened when all that is known of the
// one before was read; ranks that are late there still come in.
void LogMerge::discover() {
  for (const uint64_t generation : run_.generations("logs")) {
    if (options_.generation != 0 && generation != options_.generation) continue;
    if (generation < std::max(options_.from_generation, current_generation_)) continue;
    if (generation > current_generation_ && !all_caught_up()) return;
    open_generation(generation);
  }
}

void LogMerge::open_generation(uint64_t generation) {
  for (const int rank : run_.ranks("logs", generation, ".log")) {
    open_source(generation, rank, LogStream::kStdout);
  }
  for (const int rank : run_.ranks("logs", generation, ".err")) {
    open_source(generation, rank, LogStream::kStderr);
  }
}

// `stream` tells apart the two files of a rank that writes them itself.
void LogMerge::open_source(uint64_t generation, int rank, LogStream stream) {
  if (!wants_rank(rank) || !opened_[generation].emplace(rank, stream).second) return;
  RankLogReader reader =
      stream == LogStream::kStderr
          ? RankLogReader(run_.error_log(generation, rank), run_.error_log_index(generation, rank),
                          stream)
          : RankLogReader(run_.log(generation, rank), run_.log_index(generation, rank), stream);
  auto source = std::make_unique<Source>(generation, rank, std::move(reader),
                                         options_.split_carriage_returns);
  if (!options_.follow) source->reader.stop_at_current_size();
  if (options_.tail_lines > 0) source->reader.skip_to_last_lines(options_.tail_lines);
  source->last_growth = clock_.now();
  current_generation_ = generation;
  sources_.push_back(std::move(source));
}

void LogMerge::read_sources() {
  const size_t share = kMaxQueuedBytes / std::max<size_t>(sources_.size(), 1);
  const size_t limit = std::clamp(share, kMinReadBytes, RankLogReader::kMaxReadBytes);
  for (const auto& source : sources_) {
    if (source->queue.empty()) read_source(*source, limit);
  }
}

// False too while another's giant line keeps what was read from being merged.
bool LogMerge::wants_to_read() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const auto& source) {
    return source->queue.empty() && !source->caught_up;
  });
}

void LogMerge::read_source(Source& source, size_t limit_bytes) {
  const uint64_t behind = source.reader.behind_bytes();
  if (options_.max_behind_bytes > 0 && behind > options_.max_behind_bytes) {
    const uint64_t skipped = source.reader.skip_to_last(kKeepWhenSkippingBytes);
    source.out.reset();
    source.err.reset();
    emit_due(true);
    if (skipped_) skipped_(skipped, source.reader.log_path());
  }
  const bool gone = !options_.follow || finishing_;
  const std::vector<LogChunk> chunks = source.reader.read(gone, limit_bytes);
  source.caught_up = chunks.empty();
  if (!chunks.empty()) source.last_growth = clock_.now();
  std::vector<SplitLine> lines;
  for (const LogChunk& chunk : chunks) {
    LineSplitter& splitter = chunk.stream == LogStream::kStderr ? source.err : source.out;
    splitter.take(chunk.bytes, chunk.unix_ns, lines);
    for (SplitLine& line : lines) source.queue.emplace_back(chunk.stream, std::move(line));
    lines.clear();
  }
}

// Merges by time as long as the earliest line of every rank is known.
void LogMerge::merge_queued() {
  using Head = std::pair<int64_t, size_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  take_from_owner();
  if (owner_ != nullptr) return;
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!sources_[i]->queue.empty()) {
      heads.emplace(sources_[i]->queue.front().second.unix_ns, i);
    } else if (!sources_[i]->caught_up) {
      return;
    }
  }
  while (!heads.empty()) {
    const size_t index = heads.top().second;
    Source& source = *sources_[index];
    heads.pop();
    take_one(source);
    take_from_owner();
    if (owner_ != nullptr) return;
    if (!source.queue.empty()) {
      heads.emplace(source.queue.front().second.unix_ns, index);
    } else if (!source.caught_up) {
      return;
    }
  }
}

void LogMerge::take_one(Source& source) {
  auto [stream, line] = std::move(source.queue.front());
  source.queue.pop_front();
  if (!line.has_newline) {
    owner_ = &source;
    source.owned_stream = stream;
    owner_since_ = clock_.now();
  } else if (owner_ == &source && stream == source.owned_stream) {
    owner_ = nullptr;
  }
  place(source, stream, std::move(line));
}

void LogMerge::take_from_owner() {
  while (owner_ != nullptr && !owner_->queue.empty()) take_one(*owner_);
  if (owner_ != nullptr && clock_.now() - owner_since_ > kMaxOwnerWait) owner_ = nullptr;
}

void LogMerge::place(Source& source, LogStream stream, SplitLine line) {
  last_placed_unix_ns_ = std::max(last_placed_unix_ns_, line.unix_ns);
  if (options_.wants && !options_.wants(source.rank, stream)) return;
  const bool alone = !options_.fold || sources_.size() == 1;
  const bool can_fold = !alone && foldable(line);
  if (can_fold && join_group(source, stream, line)) return;
  MergedLine merged{.unix_ns = line.unix_ns,
                    .generation = source.generation,
                    .stream = stream,
                    .ranks = {source.rank},
                    .text = std::move(line.text),
                    .has_newline = line.has_newline,
                    .continues = line.continues};
  if (alone && held_.empty()) return emit_(merged);
  hold(std::move(merged));
  source.last_group = first_held_ + held_.size() - 1;
  if (can_fold) held_by_text_[held_.back().line.text].push_back(source.last_group);
  if (held_bytes_ > kMaxHeldBytes) emit_front();
}

void LogMerge::hold(MergedLine line) {
  held_bytes_ += line.text.size() + sizeof(Group);
  held_.push_back({std::move(line), clock_.now()});
}

// A rank's own lines keep their order: it joins only groups behind the one of its last line.
bool LogMerge::join_group(Source& source, LogStream stream, const SplitLine& line) {
  const auto same_text = held_by_text_.find(line.text);
  if (same_text == held_by_text_.end()) return false;
  const auto& numbers = same_text->second;
  auto number = std::upper_bound(numbers.begin(), numbers.end(), source.last_group);
  for (; number != numbers.end(); ++number) {
    MergedLine& held = held_[*number - first_held_].line;
    const bool same = held.stream == stream && held.generation == source.generation;
    if (!same || line.unix_ns - held.unix_ns > options_.fold_window.count()) continue;
    held.ranks.insert(std::upper_bound(held.ranks.begin(), held.ranks.end(), source.rank),
                      source.rank);
    source.last_group = *number;
    return true;
  }
  return false;
}

// A rank joins only behind the group of its last line.
bool LogMerge::nobody_can_join_front() const {
  return std::all_of(sources_.begin(), sources_.end(),
                     [this](const auto& source) { return source->last_group >= first_held_; });
}

bool LogMerge::front_is_due() const {
  const Group& front = held_.front();
  if (!options_.fold || nobody_can_join_front()) return true;
  if (last_placed_unix_ns_ - front.line.unix_ns > options_.fold_window.count()) return true;
  return options_.follow && clock_.now() - front.arrived >= options_.fold_window;
}

void LogMerge::emit_due(bool everything) {
  while (!held_.empty() && (everything || front_is_due())) emit_front();
}

void LogMerge::emit_front() {
  MergedLine& line = held_.front().line;
  const auto same_text = held_by_text_.find(line.text);
  if (same_text != held_by_text_.end() && same_text->second.front() == first_held_) {
    // The key points into the line that goes; the others hold the same text.
    std::vector<uint64_t> numbers = std::move(same_text->second);
    held_by_text_.erase(same_text);
    numbers.erase(numbers.begin());
    if (!numbers.empty()) {
      const std::string& text = held_[numbers.front() - first_held_].line.text;
      held_by_text_.emplace(text, std::move(numbers));
    }
  }
  held_bytes_ -= std::min(held_bytes_, line.text.size() + sizeof(Group));
  const MergedLine out = std::move(line);
  held_.pop_front();
  ++first_held_;
  emit_(out);
}

bool LogMerge::is_finished(const Source& source) const {
  if (!source.caught_up || !source.queue.empty()) return false;
  if (source.reader.ended() || !options_.follow || finishing_) return true;
  const bool superseded = source.generation < current_generation_;
  return superseded && clock_.now() - source.last_growth > kStaleAfter;
}

void LogMerge::finish_source(Source& source) {
  source.finished = true;
  for (const LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
    std::vector<SplitLine> lines;
    (stream == LogStream::kStdout ? source.out : source.err).finish(lines);
    for (SplitLine& line : lines) place(source, stream, std::move(line));
  }
  if (owner_ == &source) owner_ = nullptr;
}

void LogMerge::close_finished_sources() {
  for (const auto& source : sources_) {
    if (is_finished(*source)) finish_source(*source);
  }
  std::erase_if(sources_, [](const auto& source) { return source->finished; });
}

}  // namespace shanty
