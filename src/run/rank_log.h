#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/files.h"
#include "run/log_index.h"

namespace shanty {

// Writes what one rank of one generation prints: the bytes to .log, when and from which stream to
// .idx. One writer (the rank itself may be the one of the log). Opening what an earlier writer left
// goes on behind it.
class RankLogWriter {
 public:
  // What an earlier writer left outside the index counts as `uncovered`.
  static Result<RankLogWriter> open(const std::string& log_path, const std::string& index_path,
                                    int64_t unix_ns, LogStream uncovered = LogStream::kStdout);
  // One write(2) to the log, then one to the index. `stream` is not kEnd.
  Status append(LogStream stream, std::string_view bytes, int64_t unix_ns);
  // For a log that the rank writes itself, through log_fd(): says what has come since, if anything.
  Status note_growth(LogStream stream, int64_t unix_ns);
  int log_fd() const { return log_.fd(); }
  // Says that no more will come. Readers then close an unfinished last line.
  Status finish(int64_t unix_ns);
  uint64_t size_bytes() const { return log_.size_bytes(); }

 private:
  RankLogWriter(AppendFile log, AppendFile index)
      : log_(std::move(log)), index_(std::move(index)) {}
  Status append_record(const LogIndexRecord& record);
  AppendFile log_;
  AppendFile index_;
};

// A piece of a rank's output.
struct LogChunk {
  int64_t unix_ns = 0;
  LogStream stream = LogStream::kStdout;
  std::string bytes;
};

// Follows one rank's log. The files need not exist yet and may be torn: bytes that the index does
// not cover count as stdout (or as told) at the time of the last record before them, once no record
// comes for them (see read()).
class RankLogReader {
 public:
  static constexpr size_t kMaxReadBytes = 256 * 1024;

  // `uncovered` is the stream of bytes that the index says nothing about.
  RankLogReader(std::string log_path, std::string index_path,
                LogStream uncovered = LogStream::kStdout)
      : log_path_(std::move(log_path)), index_path_(std::move(index_path)), uncovered_(uncovered) {}

  // At most `limit_bytes` of new output, in order. `writer_gone` says that nobody writes these
  // files any more: then bytes beyond the index are handed out too.
  std::vector<LogChunk> read(bool writer_gone, size_t limit_bytes = kMaxReadBytes);
  // The end record was read: nothing more will come.
  bool ended() const { return ended_; }
  // Bytes of the log not handed out yet.
  uint64_t behind_bytes() const;
  // Goes forward to the first piece that starts within the last `keep_bytes`. Returns the bytes
  // passed over.
  uint64_t skip_to_last(uint64_t keep_bytes);
  // Goes to the piece in which the last `lines` lines start. For a reader that has read nothing.
  void skip_to_last_lines(uint64_t lines);
  // Reads no further than what is there now.
  void stop_at_current_size();
  // Damaged index records passed over so far.
  uint64_t skipped_records() const { return skipped_records_; }
  const std::string& log_path() const { return log_path_; }

 private:
  bool open_files();
  void start_at(uint64_t log_offset);
  std::vector<LogIndexRecord> next_records();
  uint64_t log_size() const;
  LogChunk read_chunk(const LogIndexRecord& record, size_t limit_bytes);

  std::string log_path_;
  std::string index_path_;
  LogStream uncovered_;
  Fd log_;
  Fd index_;
  bool index_bad_ = false;  // not an index: treat all bytes as uncovered
  uint64_t index_offset_ = 0;
  uint64_t log_offset_ = 0;
  std::vector<LogIndexRecord> queued_;  // read, their bytes not handed out yet
  uint64_t stop_offset_ = std::numeric_limits<uint64_t>::max();
  int64_t last_unix_ns_ = 0;
  bool ended_ = false;
  uint64_t skipped_records_ = 0;
};

}  // namespace shanty
