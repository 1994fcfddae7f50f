#include "run/rank_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace shanty {
namespace {

constexpr size_t kRecordsPerRead = 256;
constexpr size_t kScanBlockBytes = 64 * 1024;
constexpr uint64_t kMaxTailScanBytes = 256 * 1024 * 1024;

uint64_t file_size(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 ? static_cast<uint64_t>(st.st_size) : 0;
}

// Reads up to `size` bytes at `offset`; short at the end of the file or on an error.
std::string read_at(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ssize_t n =
        ::pread(fd, bytes.data() + filled, size - filled, static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    filled += static_cast<size_t>(n);
  }
  bytes.resize(filled);
  return bytes;
}

struct IndexTail {
  uint64_t whole_bytes = 0;  // 0 = no header
  uint64_t end_offset = 0;
};

// What is usable of an index that an earlier writer left.
IndexTail look_at_index(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || !log_index_header_ok(read_at(fd.get(), 0, kLogIndexHeaderBytes))) return {};
  uint64_t records = (file_size(fd.get()) - kLogIndexHeaderBytes) / kLogIndexRecordBytes;
  while (records > 0) {
    const uint64_t at = kLogIndexHeaderBytes + (records - 1) * kLogIndexRecordBytes;
    const auto record = decode_log_index_record(read_at(fd.get(), at, kLogIndexRecordBytes));
    if (record) return {at + kLogIndexRecordBytes, record->end_offset};
    --records;
  }
  return {kLogIndexHeaderBytes, 0};
}

}  // namespace

Result<RankLogWriter> RankLogWriter::open(const std::string& log_path,
                                          const std::string& index_path, int64_t unix_ns,
                                          LogStream uncovered) {
  const IndexTail tail = look_at_index(index_path);
  if (file_exists(index_path) &&
      ::truncate(index_path.c_str(), static_cast<off_t>(tail.whole_bytes)) != 0) {
    return errno_error("cutting a torn record off " + index_path);
  }
  RankLogWriter writer(TRY(AppendFile::open(log_path)), TRY(AppendFile::open(index_path)));
  if (tail.whole_bytes == 0) {
    char header[kLogIndexHeaderBytes];
    encode_log_index_header(header);
    TRY_STATUS(writer.index_.append({header, sizeof(header)}));
  }
  if (writer.log_.size_bytes() > tail.end_offset) {
    TRY_STATUS(writer.append_record({unix_ns, writer.log_.size_bytes(), uncovered}));
  }
  return writer;
}

Status RankLogWriter::append(LogStream stream, std::string_view bytes, int64_t unix_ns) {
  CHECK(stream != LogStream::kEnd);
  TRY_STATUS(log_.append(bytes));
  return append_record({unix_ns, log_.size_bytes(), stream});
}

Status RankLogWriter::note_growth(LogStream stream, int64_t unix_ns) {
  const uint64_t known = log_.size_bytes();
  TRY_STATUS(log_.find_end());
  if (log_.size_bytes() <= known) return {};
  return append_record({unix_ns, log_.size_bytes(), stream});
}

Status RankLogWriter::finish(int64_t unix_ns) {
  return append_record({unix_ns, log_.size_bytes(), LogStream::kEnd});
}

Status RankLogWriter::append_record(const LogIndexRecord& record) {
  char bytes[kLogIndexRecordBytes];
  encode_log_index_record(record, bytes);
  return index_.append({bytes, sizeof(bytes)});
}

bool RankLogReader::open_files() {
  if (!log_.valid()) log_ = Fd(::open(log_path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!log_.valid()) return false;
  if (index_.valid() || index_bad_) return true;
  index_ = Fd(::open(index_path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!index_.valid()) return true;
  const std::string header = read_at(index_.get(), 0, kLogIndexHeaderBytes);
  if (header.size() < kLogIndexHeaderBytes) {
    index_.reset();  // just being made
  } else if (!log_index_header_ok(header)) {
    index_bad_ = true;
    index_.reset();
  } else if (index_offset_ == 0) {
    index_offset_ = kLogIndexHeaderBytes;
  }
  return true;
}

std::vector<LogIndexRecord> RankLogReader::next_records() {
  std::vector<LogIndexRecord> records;
  if (!index_.valid()) return records;
  const std::string bytes =
      read_at(index_.get(), index_offset_, kRecordsPerRead * kLogIndexRecordBytes);
  const size_t whole = bytes.size() / kLogIndexRecordBytes;
  for (size_t i = 0; i < whole; ++i) {
    const auto record =
        decode_log_index_record(std::string_view(bytes).substr(i * kLogIndexRecordBytes));
    if (record) {
      records.push_back(*record);
    } else {
      ++skipped_records_;
    }
  }
  index_offset_ += whole * kLogIndexRecordBytes;
  return records;
}

std::vector<LogChunk> RankLogReader::read(bool writer_gone, size_t limit_bytes) {
  std::vector<LogChunk> chunks;
  if (!open_files()) return chunks;
  size_t budget = limit_bytes;
  while (budget > 0) {
    if (queued_.empty()) queued_ = next_records();
    if (queued_.empty()) break;
    const uint64_t size = log_size();
    size_t used = 0;
    for (; used < queued_.size() && budget > 0; ++used) {
      LogIndexRecord record = queued_[used];
      record.end_offset = std::min(record.end_offset, size);
      last_unix_ns_ = record.unix_ns;
      ended_ = record.stream == LogStream::kEnd;
      if (record.end_offset <= log_offset_) continue;
      chunks.push_back(read_chunk(record, budget));
      if (chunks.back().bytes.empty()) return chunks;
      budget -= chunks.back().bytes.size();
      if (log_offset_ < record.end_offset) break;
    }
    queued_.erase(queued_.begin(), queued_.begin() + static_cast<ptrdiff_t>(used));
  }
  const bool uncovered = queued_.empty() && budget > 0 && (writer_gone || index_bad_);
  if (uncovered && log_size() > log_offset_) {
    chunks.push_back(read_chunk({last_unix_ns_, log_size(), uncovered_}, budget));
  }
  return chunks;
}

LogChunk RankLogReader::read_chunk(const LogIndexRecord& record, size_t limit_bytes) {
  LogChunk chunk;
  chunk.unix_ns = record.unix_ns;
  chunk.stream = record.stream == LogStream::kEnd ? uncovered_ : record.stream;
  const uint64_t wanted = record.end_offset - log_offset_;
  chunk.bytes = read_at(log_.get(), log_offset_, std::min<uint64_t>(wanted, limit_bytes));
  log_offset_ += chunk.bytes.size();
  return chunk;
}

uint64_t RankLogReader::log_size() const {
  struct stat st{};
  const int rc = log_.valid() ? ::fstat(log_.get(), &st) : ::stat(log_path_.c_str(), &st);
  return rc == 0 ? std::min(static_cast<uint64_t>(st.st_size), stop_offset_) : 0;
}

void RankLogReader::stop_at_current_size() { stop_offset_ = log_size(); }

uint64_t RankLogReader::behind_bytes() const {
  const uint64_t size = log_size();
  return size > log_offset_ ? size - log_offset_ : 0;
}

// Finds the first record that ends behind `log_offset`. A damaged record met on the way can only
// make the stream of some bytes wrong, never the bytes.
void RankLogReader::start_at(uint64_t log_offset) {
  log_offset_ = log_offset;
  queued_.clear();
  if (!index_.valid()) return;
  uint64_t low = 0;
  uint64_t high = (file_size(index_.get()) - kLogIndexHeaderBytes) / kLogIndexRecordBytes;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const auto record = decode_log_index_record(read_at(
        index_.get(), kLogIndexHeaderBytes + middle * kLogIndexRecordBytes, kLogIndexRecordBytes));
    if (record && record->end_offset <= log_offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  index_offset_ = kLogIndexHeaderBytes + low * kLogIndexRecordBytes;
}

uint64_t RankLogReader::skip_to_last(uint64_t keep_bytes) {
  if (!open_files()) return 0;
  const uint64_t behind = behind_bytes();
  if (behind <= keep_bytes) return 0;
  start_at(log_offset_ + (behind - keep_bytes));
  return behind - keep_bytes;
}

void RankLogReader::skip_to_last_lines(uint64_t lines) {
  if (!open_files()) return;
  uint64_t block_end = log_size();
  const uint64_t floor = block_end > kMaxTailScanBytes ? block_end - kMaxTailScanBytes : 0;
  uint64_t newlines = 0;
  while (block_end > floor) {
    const uint64_t start = block_end - std::min<uint64_t>(block_end - floor, kScanBlockBytes);
    const std::string block = read_at(log_.get(), start, block_end - start);
    for (size_t i = block.size(); i > 0; --i) {
      const bool last_byte = start + i == log_size();
      if (block[i - 1] == '\n' && !last_byte && ++newlines == lines) return start_at(start + i);
    }
    block_end = start;
  }
  start_at(floor);
}

}  // namespace shanty
