#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/units.h"
#include "doctor/diagnose.h"
#include "doctor/readers/readers.h"
#include "logs/scan.h"
#include "logs/walk.h"
#include "os/files.h"
#include "run/log_index.h"

namespace shanty {
namespace {

constexpr size_t kMaxIndexBytes = 256u << 20;
constexpr size_t kMaxHeldBytes = 1u << 30;  // of inputs that are no files of their own
constexpr double kBinaryShare = 0.1;

// Files of a run directory that are not for people, by the end of their names.
constexpr std::string_view kOwnFiles[] = {".idx",         ".steps",     "/live.json",
                                          "/report.json", "/plan.json", "/job.json",
                                          "/run.json",    "/lock",      "/versions.jsonl"};

bool is_binary(std::string_view head) {
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) return false;
  const auto odd = std::count_if(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\x1b' && c != '\b' &&
           c != '\f';
  });
  return static_cast<double>(odd) > kBinaryShare * static_cast<double>(head.size());
}

// The times that a run directory keeps beside a rank's log.
std::function<int64_t(uint64_t)> times_of(const std::string& path) {
  if (path.find("/logs/gen-") == path.npos) return nullptr;
  std::string index = path;
  if (index.ends_with(".log")) index.erase(index.size() - 4);
  const auto bytes = read_file(index + ".idx", kMaxIndexBytes);
  if (!bytes || !log_index_header_ok(std::string_view(*bytes).substr(0, kLogIndexHeaderBytes))) {
    return nullptr;
  }
  auto records = std::make_shared<std::vector<LogIndexRecord>>();
  for (size_t at = kLogIndexHeaderBytes; at + kLogIndexRecordBytes <= bytes->size();
       at += kLogIndexRecordBytes) {
    const auto record =
        decode_log_index_record(std::string_view(*bytes).substr(at, kLogIndexRecordBytes));
    if (record) records->push_back(*record);
  }
  return [records](uint64_t offset) -> int64_t {
    const auto at = std::upper_bound(
        records->begin(), records->end(), offset,
        [](uint64_t value, const LogIndexRecord& record) { return value < record.end_offset; });
    return at == records->end() ? 0 : at->unix_ns;
  };
}

class Gatherer {
 public:
  explicit Gatherer(CaseFiles& files) : files_(files) {}

  Status gather(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    WalkOptions options;
    options.file = [this](FoundFile& file) { take(file); };
    options.directory = [this](const std::string& directory) { return enter(directory); };
    options.note = [this](std::string note) { files_.notes.push_back(std::move(note)); };
    return walk(path, options);
  }

  void finish() {
    files_.logs = scanner_.finish();
    files_.notes.insert(files_.notes.end(), files_.logs.notes.begin(), files_.logs.notes.end());
    if (binaries_ > 0) {
      files_.notes.push_back(fmt::format("{} binary files were passed over", binaries_));
    }
  }

 private:
  bool enter(const std::string& directory) {
    if (file_exists(directory + "/run.json")) {
      files_.inputs.push_back({.name = directory,
                               .kind = InputKind::kRunDirectory,
                               .path = directory,
                               .read = nullptr});
      run_directories_.push_back(directory);
      return true;
    }
    for (const std::string& run : run_directories_) {
      // Of a run only what the ranks printed is read as a log.
      if (directory.starts_with(run + "/") && !directory.starts_with(run + "/logs")) return false;
    }
    return true;
  }

  void take(FoundFile& file) {
    for (const std::string_view end : kOwnFiles) {
      if (file.name.ends_with(end)) return;
    }
    const std::string_view head = file.bytes.peek(kSniffBytes);
    const InputKind kind = sniff_input(file.name, head);
    if (kind == InputKind::kFlightRecorder) {
      hold(file, kind);
    } else if (is_binary(head)) {
      ++binaries_;
    } else if (kind == InputKind::kLog || kind == InputKind::kKernelLog) {
      scan(file.name, file.path, file.modified_unix_ns, file.bytes);
    } else {
      hold_and_scan(file, kind);
    }
  }

  void scan(const std::string& name, const std::string& path, int64_t modified, ByteSource& bytes) {
    scanner_.scan(bytes, {.name = name, .around_unix_ns = modified, .time_at = times_of(path)});
  }

  // Small things that people copied: lines in them count, and a reader of their kind looks closer.
  void hold_and_scan(FoundFile& file, InputKind kind) {
    auto text = read_all(file.bytes, kMaxFactsText);
    if (!text) {
      files_.notes.push_back(file.name + ": " + text.error().message);
      return;
    }
    const auto source = memory_source(*text);
    scan(file.name, "", file.modified_unix_ns, *source);
    keep(file.name, file.path, kind, std::move(*text));
  }

  void hold(FoundFile& file, InputKind kind) {
    if (!file.path.empty()) {
      const std::string path = file.path;
      files_.inputs.push_back(
          {.name = file.name, .kind = kind, .path = path, .read = [path](size_t limit) {
             return read_file(path, limit);
           }});
      return;
    }
    auto bytes = read_all(file.bytes, kMaxHeldBytes - std::min(held_, kMaxHeldBytes));
    if (bytes) {
      keep(file.name, "", kind, std::move(*bytes));
    } else {
      files_.notes.push_back(file.name + ": " + bytes.error().message);
    }
  }

  void keep(const std::string& name, const std::string& path, InputKind kind, std::string bytes) {
    held_ += bytes.size();
    auto shared = std::make_shared<const std::string>(std::move(bytes));
    files_.inputs.push_back(
        {.name = name, .kind = kind, .path = path, .read = [shared](size_t limit) {
           return shared->size() <= limit
                      ? Result<std::string>(*shared)
                      : Result<std::string>(
                            Error{fmt::format("longer than the limit of {}", format_bytes(limit))});
         }});
  }

  CaseFiles& files_;
  LogScanner scanner_;
  std::vector<std::string> run_directories_;
  size_t held_ = 0;
  size_t binaries_ = 0;
};

}  // namespace

Result<CaseFiles> gather_case(const std::vector<std::string>& paths) {
  CaseFiles files;
  Gatherer gatherer(files);
  for (const std::string& path : paths) TRY_STATUS(gatherer.gather(path));
  gatherer.finish();
  return files;
}

}  // namespace shanty
