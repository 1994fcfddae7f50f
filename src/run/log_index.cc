#include "run/log_index.h"

#include <cstring>

#include "base/hash.h"
#include "run/believable_time.h"

namespace shanty {
namespace {

constexpr std::string_view kMagic = "SHLOGIX1";
constexpr uint32_t kVersion = 1;
constexpr size_t kCheckedBytes = 20;

}  // namespace

void encode_log_index_header(char (&out)[kLogIndexHeaderBytes]) {
  std::memset(out, 0, sizeof(out));
  std::memcpy(out, kMagic.data(), kMagic.size());
  std::memcpy(out + 8, &kVersion, sizeof(kVersion));
}

bool log_index_header_ok(std::string_view header) {
  uint32_t version = 0;
  if (header.size() < kLogIndexHeaderBytes || !header.starts_with(kMagic)) return false;
  std::memcpy(&version, header.data() + 8, sizeof(version));
  return version == kVersion;
}

void encode_log_index_record(const LogIndexRecord& record, char (&out)[kLogIndexRecordBytes]) {
  const auto stream = static_cast<uint32_t>(record.stream);
  std::memcpy(out, &record.unix_ns, 8);
  std::memcpy(out + 8, &record.end_offset, 8);
  std::memcpy(out + 16, &stream, 4);
  const uint32_t crc = crc32c(out, kCheckedBytes);
  std::memcpy(out + kCheckedBytes, &crc, 4);
}

std::optional<LogIndexRecord> decode_log_index_record(std::string_view bytes) {
  if (bytes.size() < kLogIndexRecordBytes) return std::nullopt;
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + kCheckedBytes, 4);
  if (crc != crc32c(bytes.data(), kCheckedBytes)) return std::nullopt;
  LogIndexRecord record;
  uint32_t stream = 0;
  std::memcpy(&record.unix_ns, bytes.data(), 8);
  std::memcpy(&record.end_offset, bytes.data() + 8, 8);
  std::memcpy(&stream, bytes.data() + 16, 4);
  if (stream > static_cast<uint32_t>(LogStream::kStderr)) return std::nullopt;
  record.unix_ns = believable_unix_ns(record.unix_ns);
  record.stream = static_cast<LogStream>(stream);
  return record;
}

}  // namespace shanty
