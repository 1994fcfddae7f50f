#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shanty::ckpt {

// Every operation on a checkpoint's files, so that tests can fail each one and replay a power cut
// after each one. Paths are absolute. An implementation may be used from several threads at once.

class VfsFile {
 public:
  virtual ~VfsFile() = default;  // closes without a word; call close() where its result counts
  // Writes all of `bytes`; short writes are gone on with. With `direct`, `offset`, the size and
  // the address should be multiples of 4096; what is not goes through the cache from then on.
  virtual Status write_at(uint64_t offset, std::string_view bytes) = 0;
  // Reads until `size` bytes or the end of the file; returns the count.
  virtual Result<size_t> read_at(uint64_t offset, char* out, size_t size) = 0;
  virtual Status truncate(uint64_t size) = 0;
  // Makes room for `size` bytes and the file so long. A file system that has no such thing does
  // nothing and reports no error.
  virtual Status allocate(uint64_t size) = 0;
  virtual Status sync() = 0;   // fdatasync
  virtual Status close() = 0;  // once
};

struct OpenOptions {
  bool create = false;  // O_CREAT | O_EXCL
  bool write = false;
  bool direct = false;      // O_DIRECT where the file system has it, plain otherwise
  bool drop_cache = false;  // reads come from the device, as far as the kernel can be told so
};

struct FileInfo {
  bool exists = false;
  bool is_directory = false;
  uint64_t size = 0;
};

class Vfs {
 public:
  virtual ~Vfs() = default;
  virtual Result<std::unique_ptr<VfsFile>> open(const std::string& path, OpenOptions options) = 0;
  virtual Result<FileInfo> info(const std::string& path) = 0;  // no such file is no error; of a
                                                               // link itself
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;  // names, sorted
  virtual Status make_directory(const std::string& path) = 0;  // one level; an existing one fails
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove_file(const std::string& path) = 0;
  virtual Status remove_directory(const std::string& path) = 0;
  virtual Status hard_link(const std::string& from, const std::string& to) = 0;
  // Puts a symbolic link with `text` at `path`, in place of what is there, by a rename.
  virtual Status replace_link(const std::string& path, const std::string& text) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
};

// The real one.
Vfs& posix_vfs();

}  // namespace shanty::ckpt
