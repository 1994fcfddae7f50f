#include "telemetry/saved_files.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/fd.h"
#include "os/files.h"
#include "run/believable_time.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

constexpr size_t kSavesChunkBytes = size_t{1} << 20;
constexpr size_t kMaxSaveLineBytes = size_t{64} << 10;  // longer ones are passed over
constexpr std::string_view kManifestName = "MANIFEST.json";
constexpr size_t kMaxDirectoryEntries = 10'000;
// The end record of a zip archive: 22 bytes and a comment of at most 65535.
constexpr size_t kZipTailBytes = 22 + 65535;
constexpr std::string_view kZipStart = "PK\x03\x04";
constexpr std::string_view kZipEnd{"PK\x05\x06", 4};
constexpr size_t kZipDirectorySizeAt = 12;
constexpr size_t kZipDirectoryStartAt = 16;
constexpr uint32_t kZip64 = 0xFFFFFFFF;

uint32_t little_endian32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::string read_part(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t n = ::pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return bytes;
}

// A zip archive says at its end where its directory lies, and torch writes that last.
std::string find_zip_problem(int fd, uint64_t size) {
  const size_t tail_size = std::min<uint64_t>(size, kZipTailBytes);
  const std::string tail = read_part(fd, size - tail_size, tail_size);
  const size_t end = tail.rfind(kZipEnd);
  if (end == std::string::npos || tail.size() - end < 22) {
    return "its end is missing: the write was cut short";
  }
  const uint32_t start = little_endian32(tail, end + kZipDirectoryStartAt);
  const uint32_t length = little_endian32(tail, end + kZipDirectorySizeAt);
  const uint64_t end_at = size - tail_size + end;
  if (start != kZip64 && uint64_t{start} + length > end_at) return "its parts do not fit its size";
  return "";
}

void check_file(SavedFile& saved, uint64_t size) {
  const Fd fd(::open(saved.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    saved.state = SavedState::kDamaged;
    saved.problem = "it cannot be opened";
    return;
  }
  if (size == 0) {
    saved.state = SavedState::kDamaged;
    saved.problem = "it is empty";
    return;
  }
  if (read_part(fd.get(), 0, kZipStart.size()) != kZipStart) return;
  saved.problem = find_zip_problem(fd.get(), size);
  saved.state = saved.problem.empty() ? SavedState::kWhole : SavedState::kDamaged;
}

void check_directory(SavedFile& saved) {
  if (saved.by_shanty) {
    const bool committed = file_exists(fmt::format("{}/{}", saved.path, kManifestName));
    saved.state = committed ? SavedState::kWhole : SavedState::kDamaged;
    if (!committed) saved.problem = "its manifest is missing";
    return;
  }
  const auto names = list_directory(saved.path);
  if (!names.ok()) return;
  bool metadata = false;
  size_t data_files = 0;
  size_t empty = 0;
  for (const std::string& name : *names) {
    struct stat st{};
    if (::stat((saved.path + "/" + name).c_str(), &st) != 0) continue;
    metadata = metadata || (name == ".metadata" && st.st_size > 0);
    if (!name.ends_with(".distcp")) continue;
    ++data_files;
    if (st.st_size == 0) ++empty;
  }
  if (!metadata && data_files == 0) return;
  if (!metadata) saved.problem = "its .metadata is missing: not all ranks had written";
  if (metadata && data_files == 0) saved.problem = "its data files are missing";
  if (empty > 0) saved.problem = fmt::format("{} of its data files are empty", empty);
  saved.state = saved.problem.empty() ? SavedState::kWhole : SavedState::kDamaged;
}

// A script that writes under a temporary name and renames keeps the inode.
bool follow_rename(SavedFile& saved) {
  if (saved.inode == 0) return false;
  const std::string directory = saved.path.substr(0, saved.path.rfind('/'));
  const auto names = list_directory(directory.empty() ? "/" : directory);
  if (!names.ok() || names->size() > kMaxDirectoryEntries) return false;
  for (const std::string& name : *names) {
    struct stat st{};
    const std::string path = directory + "/" + name;
    if (::stat(path.c_str(), &st) != 0 || st.st_ino != saved.inode) continue;
    saved.path = path;
    return true;
  }
  return false;
}

using SaveLine = std::function<void(const nlohmann::json& line, int64_t unix_ns)>;

void use_line(std::string_view text, const SaveLine& use) {
  const auto line = parse_json(text);
  if (!line || !line->is_object()) return;
  use(*line, believable_unix_ns(json_int64(*line, "unix_ns")));
}

// Line by line: a job that saves often for months writes more than is held at once.
void read_lines(const std::string& path, const SaveLine& use) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return;
  std::string held;
  bool too_long = false;
  for (uint64_t offset = 0;;) {
    const std::string chunk = read_part(fd.get(), offset, kSavesChunkBytes);
    if (chunk.empty()) return;  // a last line without its newline was torn
    offset += chunk.size();
    std::string_view rest = chunk;
    for (size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      held += rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (!too_long && held.size() <= kMaxSaveLineBytes) use_line(held, use);
      held.clear();
      too_long = false;
    }
    too_long = too_long || held.size() + rest.size() > kMaxSaveLineBytes;
    if (too_long) {
      held.clear();
    } else {
      held += rest;
    }
  }
}

// Lines of all ranks.
void read_saves(const RunDir& run, const SaveLine& use) {
  const std::string directory = run.path() + "/saves";
  const auto names = list_directory(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name.ends_with(".jsonl")) read_lines(directory + "/" + name, use);
  }
}

}  // namespace

const char* to_string(SavedState state) {
  switch (state) {
    case SavedState::kWhole:
      return "whole";
    case SavedState::kDamaged:
      return "damaged";
    case SavedState::kMissing:
      return "missing";
    case SavedState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

void check_saved_file(SavedFile& saved) {
  struct stat st{};
  if (::stat(saved.path.c_str(), &st) != 0 &&
      (!follow_rename(saved) || ::stat(saved.path.c_str(), &st) != 0)) {
    saved.state = SavedState::kMissing;
    return;
  }
  if (S_ISDIR(st.st_mode)) return check_directory(saved);
  if (S_ISREG(st.st_mode)) check_file(saved, static_cast<uint64_t>(st.st_size));
}

namespace {

constexpr size_t kMaxHeldPaths = 4096;

// Of more paths than can matter the newest stay. Looks at them again when they have doubled: many
// may have one time.
class Newest {
 public:
  void take(SavedFile saved) {
    SavedFile& known = by_path_[saved.path];
    if (known.unix_ns <= saved.unix_ns) known = std::move(saved);
    if (by_path_.size() >= limit_) drop_oldest();
  }

  std::vector<SavedFile> sorted() && {
    std::vector<SavedFile> saved;
    for (auto& [path, file] : by_path_) saved.push_back(std::move(file));
    std::sort(saved.begin(), saved.end(),
              [](const SavedFile& a, const SavedFile& b) { return a.unix_ns > b.unix_ns; });
    if (saved.size() > kMaxSavedFiles) saved.resize(kMaxSavedFiles);
    return saved;
  }

 private:
  void drop_oldest() {
    std::vector<int64_t> times;
    for (const auto& [path, file] : by_path_) times.push_back(file.unix_ns);
    const auto oldest_kept = times.end() - kMaxSavedFiles;
    std::nth_element(times.begin(), oldest_kept, times.end());
    std::erase_if(by_path_, [&](const auto& one) { return one.second.unix_ns < *oldest_kept; });
    limit_ = std::max(kMaxHeldPaths, 2 * by_path_.size());
  }

  std::map<std::string, SavedFile> by_path_;
  size_t limit_ = kMaxHeldPaths;
};

}  // namespace

std::vector<SavedFile> read_saved_files(const RunDir& run) {
  Newest newest;
  read_saves(run, [&](const nlohmann::json& line, int64_t unix_ns) {
    SavedFile saved{.path = json_string(line, "path"),
                    .step = json_uint64(line, "step"),
                    .unix_ns = unix_ns,
                    .inode = json_uint64(line, "inode"),
                    .by_shanty = json_string(line, "by") == "shanty"};
    if (saved.path.empty() || saved.path[0] != '/') return;
    newest.take(std::move(saved));
  });
  std::vector<SavedFile> saved = std::move(newest).sorted();
  for (SavedFile& file : saved) check_saved_file(file);
  // Many temporary names may have been renamed onto one: its newest counts.
  std::set<std::string> seen;
  std::erase_if(saved, [&](const SavedFile& file) {
    const bool pruned = file.by_shanty && file.state == SavedState::kMissing;
    return pruned || !seen.insert(file.path).second;
  });
  return saved;
}

std::vector<FailedSave> read_failed_saves(const RunDir& run) {
  std::map<uint64_t, FailedSave> by_step;
  read_saves(run, [&](const nlohmann::json& line, int64_t unix_ns) {
    FailedSave save{
        .step = json_uint64(line, "step"), .unix_ns = unix_ns, .why = json_string(line, "failed")};
    if (save.why.empty() || by_step.size() >= kMaxFailedSaves) return;
    const auto [known, is_new] = by_step.try_emplace(save.step, save);
    if (!is_new && save.unix_ns < known->second.unix_ns) known->second = std::move(save);
  });
  std::vector<FailedSave> failed;
  for (auto& [step, save] : by_step) failed.push_back(std::move(save));
  std::sort(failed.begin(), failed.end(),
            [](const FailedSave& a, const FailedSave& b) { return a.unix_ns < b.unix_ns; });
  return failed;
}

}  // namespace shanty
