#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shanty {

// The index of a rank's log (docs/formats/logs.md): a header and fixed-size records, each closing a
// piece of the log.
enum class LogStream : uint32_t {
  kEnd = 0,  // the rank's output is complete
  kStdout = 1,
  kStderr = 2,
};

struct LogIndexRecord {
  int64_t unix_ns = 0;
  uint64_t end_offset = 0;  // of the piece, in the log
  LogStream stream = LogStream::kStdout;

  friend bool operator==(const LogIndexRecord&, const LogIndexRecord&) = default;
};

inline constexpr size_t kLogIndexHeaderBytes = 16;
inline constexpr size_t kLogIndexRecordBytes = 24;

void encode_log_index_header(char (&out)[kLogIndexHeaderBytes]);
void encode_log_index_record(const LogIndexRecord& record, char (&out)[kLogIndexRecordBytes]);
// False: not an index, or of a version this reader does not know.
bool log_index_header_ok(std::string_view header);
// nullopt when the checksum does not fit or the stream is unknown. `bytes` holds one record.
std::optional<LogIndexRecord> decode_log_index_record(std::string_view bytes);

}  // namespace shanty
