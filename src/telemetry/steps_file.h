#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/files.h"
#include "telemetry/step_record.h"

namespace shanty {

inline constexpr size_t kStepsHeaderBytes = 64;
inline constexpr size_t kStepsRecordBytes = 64;

struct StepsHeader {
  int rank = 0;
  uint64_t generation = 0;
  int64_t start_unix_ns = 0;
};

// Appends step records to a .steps file (docs/formats/steps.md). One writer.
class StepsWriter {
 public:
  // Writes the header of a new file; goes on behind the last whole record of an old one.
  static Result<StepsWriter> open(const std::string& path, const StepsHeader& header);
  // One write(2) for all of them; none for an empty span.
  Status append(std::span<const StepRecord> records);

 private:
  explicit StepsWriter(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

// Follows one .steps file. It need not exist yet.
class StepsReader {
 public:
  static constexpr size_t kMaxReadBytes = 1024 * 1024;

  explicit StepsReader(std::string path) : path_(std::move(path)) {}
  // Appends whole new records, at most kMaxReadBytes of them. False: nothing was new.
  bool read(std::vector<StepRecord>& out);
  const std::optional<StepsHeader>& header() const { return header_; }
  // Records passed over because their checksum does not fit.
  uint64_t skipped_records() const { return skipped_; }
  // Bytes of an unfinished last record.
  uint64_t torn_bytes() const { return torn_bytes_; }
  // The file is not a steps file.
  bool bad() const { return bad_; }

 private:
  bool open_file();

  std::string path_;
  Fd fd_;
  std::optional<StepsHeader> header_;
  uint64_t offset_ = kStepsHeaderBytes;
  uint64_t skipped_ = 0;
  uint64_t torn_bytes_ = 0;
  bool bad_ = false;
};

// The pieces, for the fuzzer and other readers.
void encode_step_record(const StepRecord& record, char (&out)[kStepsRecordBytes]);
std::optional<StepRecord> decode_step_record(std::string_view bytes);
std::string encode_steps_header(const StepsHeader& header);
std::optional<StepsHeader> decode_steps_header(std::string_view bytes);

}  // namespace shanty
