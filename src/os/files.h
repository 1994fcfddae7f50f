#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace shanty {

// Whole-file and append helpers. Every error names the path and what was attempted.

// Reads at most `limit_bytes`; a longer file is an error.
Result<std::string> read_file(const std::string& path, size_t limit_bytes);
// Writes a temporary file beside it, fsyncs it, renames it over `path`, fsyncs the directory.
Status write_file_atomically(const std::string& path, std::string_view content);
// The same without any fsync, for snapshots that are replaced every second.
Status replace_file(const std::string& path, std::string_view content);
Status make_directories(const std::string& path);
bool file_exists(const std::string& path);
Status write_all(int fd, std::string_view bytes);  // waits where a non-blocking one is full

// Names in a directory, sorted, without "." and "..". A missing directory is an error.
Result<std::vector<std::string>> list_directory(const std::string& path);

// Removes a directory tree. A missing one is fine.
Status remove_tree(const std::string& path);

// A file that only grows. One writer. Opened with O_APPEND|O_CREAT|O_CLOEXEC, mode 0644.
class AppendFile {
 public:
  static Result<AppendFile> open(const std::string& path);
  Status append(std::string_view bytes);
  // Takes over what others have appended through fd().
  Status find_end();
  int fd() const { return fd_.get(); }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  AppendFile(Fd fd, std::string path, uint64_t size_bytes)
      : fd_(std::move(fd)), path_(std::move(path)), size_bytes_(size_bytes) {}
  Fd fd_;
  std::string path_;
  uint64_t size_bytes_ = 0;
};

// A shared flock held for the life of the object (docs/formats/run-directory.md, `lock`).
class SharedLock {
 public:
  static Result<SharedLock> take(const std::string& path);
  // True when some process holds a lock on `path`.
  static bool held_by_someone(const std::string& path);

 private:
  explicit SharedLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace shanty
