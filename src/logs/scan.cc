#include "logs/scan.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/hash.h"
#include "logs/block_reader.h"
#include "logs/event_table.h"
#include "logs/finder.h"
#include "logs/pattern.h"
#include "logs/prefix.h"
#include "logs/tally.h"
#include "logs/traceback.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr std::string_view kException = "exception";

struct Row {
  const EventRow* row = nullptr;
  std::optional<Pattern> pattern;
};

// The table of events as scanners need it: each needle once, with its rows. Made once, never freed:
// records point to the names of groups.
struct Events {
  std::vector<Row> rows;
  std::vector<std::string_view> needles;
  std::vector<std::vector<uint32_t>> rows_of_needle;
  uint32_t frame_needle = 0;
  uint32_t exception_row = 0;

  Events() {
    std::unordered_map<std::string_view, uint32_t> known;
    for (const EventRow& row : event_rows()) {
      const auto [at, added] = known.emplace(row.needle, static_cast<uint32_t>(needles.size()));
      if (added) {
        needles.push_back(row.needle);
        rows_of_needle.emplace_back();
      }
      if (row.needle == kFrameNeedle) frame_needle = at->second;
      if (row.id == kException) exception_row = static_cast<uint32_t>(rows.size());
      rows_of_needle[at->second].push_back(static_cast<uint32_t>(rows.size()));
      Row compiled{.row = &row, .pattern = std::nullopt};
      if (!row.pattern.empty()) compiled.pattern.emplace(row.pattern);
      rows.push_back(std::move(compiled));
    }
  }
};

const Events& events() {
  static const auto* made = new Events;
  return *made;
}

// A line of a block that is looked at later, or not at all.
struct Aside {
  size_t begin = 0;
  size_t end = 0;
  uint64_t line = 0;
};

// What is kept of one event of one origin.
struct Bucket {
  Keep keep = Keep::kFirst;
  size_t kept_first = 0;
  std::deque<Record> last;
};

constexpr size_t kMaxStarts = 32;  // of one file, whose series are kept apart
constexpr std::string_view kResumed = "resumed";
constexpr std::string_view kRestart = "restart";

constexpr size_t kMaxSpeaker = 200;      // bytes of a line before " NCCL "
constexpr uint32_t kFactsOfSpeaker = 4;  // of one kind that are looked at
constexpr uint32_t kFactsThinned = 32;   // then one of so many

size_t limit_first(Keep keep) { return keep == Keep::kFirst ? kKeepFirst : kKeepSeriesFirst; }
size_t limit_last(Keep keep) { return keep == Keep::kFirst ? kKeepLast : kKeepSeriesLast; }

std::string cut_text(std::string_view text) {
  return printable(text.substr(0, std::min(text.size(), kMaxRecordText)));
}

uint64_t mix(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
}

}  // namespace

class LogScanner::Impl {
 public:
  Impl() : finder_(events().needles), hits_in_block_(events().rows.size()) {}

  void scan(ByteSource& source, const ScanOptions& options) {
    options_ = &options;
    file_ = static_cast<uint32_t>(book_.files.size());
    name_ = read_file_name(options.name);
    LogFile file{.name = options.name,
                 .bytes = 0,
                 .lines = 0,
                 .rank = name_.rank,
                 .number = name_.number,
                 .node = ""};
    file.node = name_.node;
    last_time_ = 0;
    line_ = 0;
    unfinished_ = false;
    BlockReader reader(source);
    while (true) {
      const auto block = reader.next();
      if (!block) {
        book_.notes.push_back(fmt::format("{}: {}", options.name, block.error().message));
        break;
      }
      if (!*block) break;
      scan_block(**block);
      file.bytes += (*block)->bytes.size();
    }
    file.lines = line_ + (unfinished_ ? 1 : 0);
    if (reader.cut_lines() > 0) {
      book_.notes.push_back(fmt::format("{}: {} lines longer than {} bytes were cut", options.name,
                                        reader.cut_lines(), BlockReader::kMaxLineBytes));
    }
    end_file();
    book_.files.push_back(std::move(file));
  }

  LogBook finish() {
    if (dropped_ > 0) {
      book_.notes.push_back(
          fmt::format("{} further lines were recognised but not kept: the limit is {} in all",
                      dropped_, kMaxRecords));
    }
    settle(book_);
    return std::move(book_);
  }

 private:
  void scan_block(const Block& block) {
    block_ = block;
    counted_ = 0;
    line_begin_ = line_end_ = 0;
    hit_needles_.clear();
    raised_.clear();
    redraws_.reset();
    std::fill(hits_in_block_.begin(), hits_in_block_.end(), 0);
    finder_.scan(
        block.bytes,
        [](void* self, uint32_t needle, size_t end) {
          static_cast<Impl*>(self)->on_hit(needle, end);
        },
        this);
    end_line();
    read_aside();
    line_ += count_newlines(block.bytes.substr(counted_));
    unfinished_ = !block.bytes.ends_with('\n');
  }

  void on_hit(uint32_t needle, size_t end) {
    if (end > line_end_) {
      end_line();
      const char* data = block_.bytes.data();
      const void* newline = std::memchr(data + end - 1, '\n', block_.bytes.size() - end + 1);
      line_end_ = newline ? static_cast<size_t>(static_cast<const char*>(newline) - data)
                          : block_.bytes.size();
      const void* before = end > 1 ? ::memrchr(data, '\n', end - 1) : nullptr;
      line_begin_ = before ? static_cast<size_t>(static_cast<const char*>(before) - data) + 1 : 0;
      keep_visible(end - 1);
    }
    for (const auto& [known, at] : hit_needles_) {
      if (known == needle) return;
    }
    hit_needles_.emplace_back(needle, end);
  }

  // Takes the line apart in which needles were found.
  void end_line() {
    if (hit_needles_.empty()) return;
    wanted_.clear();
    for (const auto& [needle, end] : hit_needles_) {
      if (needle == events_.frame_needle) keep_raised();
      for (const uint32_t row : events_.rows_of_needle[needle]) {
        if (wants(row, end)) wanted_.push_back(row);
      }
    }
    hit_needles_.clear();
    if (wanted_.empty()) return;
    if (!aside_.empty() && begins_anew()) {
      const std::vector<uint32_t> wanted = wanted_;
      read_aside();
      wanted_ = wanted;
    }
    std::sort(wanted_.begin(), wanted_.end());
    count_lines();
    take_apart();
  }

  bool wants(uint32_t index, size_t end) {
    const EventRow& row = *events_.rows[index].row;
    if (row.keep == Keep::kSeries) {
      if (++hits_in_block_[index] <= kMaxSeriesPerBlock) return true;
      put_aside(index);
      return false;
    }
    if (row.keep == Keep::kFirst && row.weight != Weight::kFact) return true;
    const std::string_view line = block_.bytes.substr(line_begin_, line_end_ - line_begin_);
    const size_t speaker = line.substr(0, kMaxSpeaker).find(" NCCL ");
    const std::hash<std::string_view> hash;
    if (row.keep == Keep::kFirst) {
      // NCCL tells the same facts of a process for each communicator: a few of them are enough.
      // Without a speaker only the very same line counts as the same.
      const uint32_t told = facts_.add(mix(hash(line.substr(0, speaker)), index));
      return told < kFactsOfSpeaker || told % kFactsThinned == 0;
    }
    const uint64_t key = mix(hash(line.substr(0, speaker == line.npos ? 0 : speaker)),
                             hash(block_.bytes.substr(end, line_end_ - end)));
    return samples_.add(key) == 0;
  }

  void count_lines() {
    line_ += count_newlines(block_.bytes.substr(counted_, line_begin_ - counted_));
    counted_ = line_begin_;
  }

  // Of more progress than is looked at in a block, the last lines are.
  void put_aside(uint32_t index) {
    count_lines();
    std::deque<Aside>& aside = aside_[index];
    aside.push_back({line_begin_, line_end_, line_});
    if (aside.size() > kKeepSeriesLast) aside.pop_front();
  }

  void read_aside() {
    const Aside here{line_begin_, line_end_, line_};
    for (auto& [index, aside] : aside_) {
      for (const Aside& line : aside) {
        line_begin_ = line.begin;
        line_end_ = line.end;
        line_ = line.line;
        wanted_ = {index};
        take_apart();
      }
    }
    aside_.clear();
    line_begin_ = here.begin;
    line_end_ = here.end;
    line_ = here.line;
  }

  // Narrows the line to its part around `at`, between carriage returns: progress bars redraw
  // themselves, and what is printed then follows on the same line.
  void keep_visible(size_t at) {
    const char* data = block_.bytes.data();
    if (!redraws_) redraws_ = std::memchr(data, '\r', block_.bytes.size()) != nullptr;
    if (!*redraws_) return;
    const void* redrawn = ::memrchr(data + line_begin_, '\r', at - line_begin_);
    if (redrawn) line_begin_ = static_cast<size_t>(static_cast<const char*>(redrawn) - data) + 1;
    const void* again = std::memchr(data + at, '\r', line_end_ - at);
    if (again) line_end_ = static_cast<size_t>(static_cast<const char*>(again) - data);
  }

  // Of a part of a line that does not tell who speaks, the beginning of the line does.
  void take_speaker_of_line(Prefix& prefix) const {
    if (line_begin_ == 0 || block_.bytes[line_begin_ - 1] != '\r') return;
    if (prefix.rank >= 0 || prefix.local_rank >= 0 || !prefix.pod.empty()) return;
    const size_t newline = block_.bytes.rfind('\n', line_begin_ - 1);
    const std::string_view line = block_.bytes.substr(newline + 1);  // npos + 1 is 0
    std::string buffer;
    const Prefix first =
        read_prefix(line.substr(0, line.find('\r')), options_->around_unix_ns, buffer);
    prefix.rank = first.rank;
    prefix.local_rank = first.local_rank;
    prefix.pod = first.pod;
    if (prefix.pid < 0) prefix.pid = first.pid;
    if (prefix.node.empty()) prefix.node = first.node;
  }

  // The exception below the frame of this line.
  void keep_raised() {
    const auto raised = raised_below(block_.bytes, line_begin_, line_end_);
    if (!raised || !raised_.insert(raised->begin).second) return;
    count_lines();
    const Aside here{line_begin_, line_end_, line_};
    line_begin_ = raised->begin;
    line_end_ = raised->end;
    line_ += raised->lines_below;
    Prefix prefix = read_prefix(block_.bytes.substr(line_begin_, line_end_ - line_begin_),
                                options_->around_unix_ns, buffer_);
    prefix.message = raised->message;
    captures_ = {{"type", raised->type}, {"what", raised->what}, {"at", raised->at}};
    const Row& row = events_.rows[events_.exception_row];
    keep(row, make_record(row, prefix));
    line_begin_ = here.begin;
    line_end_ = here.end;
    line_ = here.line;
  }

  void take_apart() {
    const std::string_view line = block_.bytes.substr(line_begin_, line_end_ - line_begin_);
    Prefix prefix = read_prefix(line, options_->around_unix_ns, buffer_);
    take_speaker_of_line(prefix);
    std::string_view matched_id;
    for (const uint32_t index : wanted_) {
      const Row& row = events_.rows[index];
      if (row.row->id == matched_id) continue;
      if (row.row->id == kException && raised_.contains(line_begin_)) continue;
      captures_.clear();
      if (row.pattern && !row.pattern->find(prefix.message, captures_)) continue;
      matched_id = row.row->id;
      if (matched_id == kResumed || matched_id == kRestart) begin_anew();
      keep(row, make_record(row, prefix));
    }
  }

  Record make_record(const Row& row, const Prefix& prefix) {
    Record record;
    record.event = row.row->id;
    record.weight = row.row->weight;
    record.file = file_;
    record.line = line_ + 1;
    record.unix_ns = prefix.unix_ns;
    record.own_time = prefix.unix_ns != 0;
    if (!record.own_time && options_->time_at) {
      record.unix_ns = options_->time_at(block_.offset + line_begin_);
      record.own_time = record.unix_ns != 0;
    }
    if (record.own_time) last_time_ = record.unix_ns;
    if (record.unix_ns == 0) record.unix_ns = last_time_;
    record.rank = prefix.rank >= 0 ? prefix.rank : name_.rank;
    record.local_rank = prefix.local_rank >= 0 ? prefix.local_rank : name_.local_rank;
    record.pid = prefix.pid;
    record.node = prefix.node;  // settle() takes the file's where no line of it names one
    record.pod = prefix.pod.empty() ? name_.pod : prefix.pod;
    record.generation = std::max(name_.generation, 0);
    for (const auto& [name, value] : captures_) {
      record.captures.emplace_back(name, printable(value.substr(0, kMaxRecordText)));
    }
    if (!prefix.group.empty()) record.captures.emplace_back("group", printable(prefix.group));
    if (prefix.group_rank >= 0) {
      record.captures.emplace_back("group_rank", std::to_string(prefix.group_rank));
    }
    record.text = cut_text(prefix.message);
    return record;
  }

  // Whether a row that is wanted may say that the job starts again.
  bool begins_anew() const {
    return std::any_of(wanted_.begin(), wanted_.end(), [this](uint32_t index) {
      const std::string_view id = events_.rows[index].row->id;
      return id == kResumed || id == kRestart;
    });
  }

  // What was done before a new start ends here, and what comes after it begins: both are kept.
  void begin_anew() {
    if (++starts_ > kMaxStarts) return;
    std::fill(hits_in_block_.begin(), hits_in_block_.end(), 0);
    for (auto& [key, bucket] : buckets_) {
      if (bucket.keep != Keep::kSeries) continue;
      waiting_ -= bucket.last.size();
      for (Record& record : bucket.last) book_.records.push_back(std::move(record));
      bucket = {.keep = Keep::kSeries, .kept_first = 0, .last = {}};
    }
  }

  void keep(const Row& row, Record record) {
    uint64_t key = std::hash<std::string_view>()(row.row->id);
    key = mix(key, static_cast<uint64_t>(record.rank));
    key = mix(key, static_cast<uint64_t>(record.pid));
    key = mix(key, static_cast<uint64_t>(record.local_rank));
    key = mix(key, std::hash<std::string>()(record.node));
    key = mix(key, std::hash<std::string>()(record.pod));
    if (book_.records.size() + waiting_ >= kMaxRecords) {
      ++dropped_;
      ++book_.not_kept[row.row->id];
      return;
    }
    Bucket& bucket = buckets_[key];
    bucket.keep = row.row->keep;
    if (bucket.kept_first < limit_first(row.row->keep)) {
      ++bucket.kept_first;
      book_.records.push_back(std::move(record));
      return;
    }
    bucket.last.push_back(std::move(record));
    ++waiting_;
    if (bucket.last.size() > limit_last(row.row->keep)) {
      ++book_.not_kept[bucket.last.front().event];
      bucket.last.pop_front();
      --waiting_;
    }
  }

  void end_file() {
    for (auto& [key, bucket] : buckets_) {
      for (Record& record : bucket.last) book_.records.push_back(std::move(record));
    }
    buckets_.clear();
    samples_.clear();
    facts_.clear();
    waiting_ = 0;
    starts_ = 0;
  }

  const Events& events_ = events();
  Finder finder_;
  std::vector<size_t> hits_in_block_;  // by row
  LogBook book_;
  const ScanOptions* options_ = nullptr;
  uint32_t file_ = 0;
  NamePrefix name_;
  int64_t last_time_ = 0;
  uint64_t line_ = 0;        // newlines before block offset counted_
  bool unfinished_ = false;  // the last line has no newline yet

  Block block_;
  size_t counted_ = 0;
  size_t line_begin_ = 0;
  size_t line_end_ = 0;
  std::optional<bool> redraws_;  // the block has carriage returns; looked up when it is asked for
  std::vector<std::pair<uint32_t, size_t>> hit_needles_;
  std::vector<uint32_t> wanted_;
  std::set<size_t> raised_;  // begins of lines of this block that were kept as exceptions
  std::unordered_map<uint32_t, std::deque<Aside>> aside_;  // by row
  std::string buffer_;
  Captures captures_;

  std::unordered_map<uint64_t, Bucket> buckets_;
  Tally samples_;
  Tally facts_;  // told by one speaker
  size_t waiting_ = 0;
  size_t starts_ = 0;
  uint64_t dropped_ = 0;
};

LogScanner::LogScanner() : impl_(std::make_unique<Impl>()) {}
LogScanner::~LogScanner() = default;
void LogScanner::scan(ByteSource& source, const ScanOptions& options) {
  impl_->scan(source, options);
}
LogBook LogScanner::finish() { return impl_->finish(); }

}  // namespace shanty
