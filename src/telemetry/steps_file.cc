#include "telemetry/steps_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "run/believable_time.h"

namespace shanty {
namespace {

constexpr std::string_view kMagic = "SHSTEPS1";
constexpr uint32_t kVersion = 1;
constexpr size_t kPayloadAt = 8;

// Offsets in the header, docs/formats/steps.md.
constexpr size_t kVersionAt = 8;
constexpr size_t kRankAt = 12;
constexpr size_t kGenerationAt = 16;
constexpr size_t kStartAt = 24;
constexpr size_t kHeaderCrcAt = 60;

template <typename T>
T read_as(std::string_view bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// Cuts a torn last record off, so that what is appended lies where readers look for it. A file
// too short for a header is emptied.
Status cut_torn_tail(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return {};
  const auto size = static_cast<uint64_t>(st.st_size);
  const uint64_t whole = size < kStepsHeaderBytes ? 0 : size - size % kStepsRecordBytes;
  if (whole == size) return {};
  if (::truncate(path.c_str(), static_cast<off_t>(whole)) != 0) {
    return errno_error("cutting a torn record off " + path);
  }
  return {};
}

}  // namespace

static_assert(kStepsHeaderBytes % kStepsRecordBytes == 0);

void encode_step_record(const StepRecord& record, char (&out)[kStepsRecordBytes]) {
  const uint32_t crc = crc32c(&record, sizeof(record));
  std::memset(out, 0, kPayloadAt);
  std::memcpy(out, &crc, sizeof(crc));
  std::memcpy(out + kPayloadAt, &record, sizeof(record));
}

std::optional<StepRecord> decode_step_record(std::string_view bytes) {
  if (bytes.size() < kStepsRecordBytes) return std::nullopt;
  const auto crc = read_as<uint32_t>(bytes, 0);
  auto record = read_as<StepRecord>(bytes, kPayloadAt);
  if (crc != crc32c(&record, sizeof(record))) return std::nullopt;
  record.end_unix_ns = believable_unix_ns(record.end_unix_ns);
  return record;
}

std::string encode_steps_header(const StepsHeader& header) {
  std::string out(kStepsHeaderBytes, '\0');
  const auto put = [&out](size_t at, auto value) { std::memcpy(&out[at], &value, sizeof(value)); };
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  put(kVersionAt, kVersion);
  put(kRankAt, static_cast<uint32_t>(header.rank));
  put(kGenerationAt, header.generation);
  put(kStartAt, header.start_unix_ns);
  put(kHeaderCrcAt, crc32c(out.data(), kHeaderCrcAt));
  return out;
}

std::optional<StepsHeader> decode_steps_header(std::string_view bytes) {
  if (bytes.size() < kStepsHeaderBytes || !bytes.starts_with(kMagic)) return std::nullopt;
  if (read_as<uint32_t>(bytes, kVersionAt) != kVersion) return std::nullopt;
  if (read_as<uint32_t>(bytes, kHeaderCrcAt) != crc32c(bytes.data(), kHeaderCrcAt)) {
    return std::nullopt;
  }
  StepsHeader header;
  header.rank = static_cast<int>(read_as<uint32_t>(bytes, kRankAt));
  header.generation = read_as<uint64_t>(bytes, kGenerationAt);
  header.start_unix_ns = believable_unix_ns(read_as<int64_t>(bytes, kStartAt));
  return header;
}

Result<StepsWriter> StepsWriter::open(const std::string& path, const StepsHeader& header) {
  TRY_STATUS(cut_torn_tail(path));
  StepsWriter writer(TRY(AppendFile::open(path)));
  if (writer.file_.size_bytes() == 0) {
    TRY_STATUS(writer.file_.append(encode_steps_header(header)));
  }
  return writer;
}

Status StepsWriter::append(std::span<const StepRecord> records) {
  if (records.empty()) return {};
  std::string bytes;
  bytes.reserve(records.size() * kStepsRecordBytes);
  for (const StepRecord& record : records) {
    char encoded[kStepsRecordBytes];
    encode_step_record(record, encoded);
    bytes.append(encoded, sizeof(encoded));
  }
  return file_.append(bytes);
}

bool StepsReader::open_file() {
  if (fd_.valid()) return true;
  if (bad_) return false;
  Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[kStepsHeaderBytes];
  if (!fd.valid()) return false;
  const ssize_t n = ::pread(fd.get(), bytes, sizeof(bytes), 0);
  torn_bytes_ = n > 0 ? static_cast<uint64_t>(n) : 0;
  if (n < static_cast<ssize_t>(sizeof(bytes))) return false;
  torn_bytes_ = 0;
  header_ = decode_steps_header({bytes, sizeof(bytes)});
  bad_ = !header_;
  if (bad_) return false;
  fd_ = std::move(fd);
  return true;
}

bool StepsReader::read(std::vector<StepRecord>& out) {
  if (!open_file()) return false;
  std::string bytes(kMaxReadBytes, '\0');
  ssize_t n = 0;
  do {
    n = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return false;
  const size_t whole = static_cast<size_t>(n) / kStepsRecordBytes;
  torn_bytes_ = static_cast<size_t>(n) % kStepsRecordBytes;
  for (size_t i = 0; i < whole; ++i) {
    const auto record = decode_step_record(
        std::string_view(bytes).substr(i * kStepsRecordBytes, kStepsRecordBytes));
    if (record) {
      out.push_back(*record);
    } else {
      ++skipped_;
    }
  }
  offset_ += whole * kStepsRecordBytes;
  return whole > 0;
}

}  // namespace shanty
