#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace shanty::ckpt {

// Memory at a multiple of kDataAlignment, not cleared.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t size);
  char* data() { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0;
};

// One file of a checkpoint. Bytes come out of it only from chunks whose checksum was found right
// through this object. Thread-safe.
class CheckedFile {
 public:
  CheckedFile(Vfs& vfs, std::string directory, const StoredFile& stored);

  const StoredFile& stored() const { return stored_; }
  // Reads the whole chunks [first, last) to `out`, which has room for them.
  std::optional<Damage> read_chunks(uint64_t first, uint64_t last, char* out);
  bool is_checked(uint64_t chunk) const { return checked_[chunk].load() != 0; }
  // Reads a range all of whose chunks were checked before.
  std::optional<Damage> read_again(uint64_t begin, uint64_t end, char* out);

 private:
  Result<VfsFile*> file();
  std::optional<Damage> read_range(uint64_t begin, uint64_t end, char* out);

  Vfs& vfs_;
  std::string directory_;
  const StoredFile& stored_;
  std::mutex mutex_;
  std::unique_ptr<VfsFile> file_;  // opened by the first read
  std::vector<std::atomic<uint8_t>> checked_;
};

// A name for a directory that may have become visible since: what to open when `path` in an
// in-progress directory is gone. nullopt for any other.
std::optional<std::string> visible_twin(const std::string& directory);

}  // namespace shanty::ckpt
