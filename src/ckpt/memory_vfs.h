#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ckpt/vfs.h"

namespace shanty::ckpt {

// Files that lie in memory, here or elsewhere, for reading only, so that a checkpoint in the slots
// of engines is read and checked as one on storage is. The bytes must outlive this and its files.
class MemoryVfs : public Vfs {
 public:
  // Copies `size` bytes from `offset` on; called from several threads.
  using Fetch = std::function<Status(uint64_t offset, char* out, size_t size)>;

  void add(const std::string& path, std::string_view bytes);
  void add_remote(const std::string& path, uint64_t size, Fetch fetch);

  Result<std::unique_ptr<VfsFile>> open(const std::string& path, OpenOptions options) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status make_directory(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_file(const std::string& path) override;
  Status remove_directory(const std::string& path) override;
  Status hard_link(const std::string& from, const std::string& to) override;
  Status replace_link(const std::string& path, const std::string& text) override;
  Status sync_directory(const std::string& path) override;

 private:
  struct File {
    uint64_t size = 0;
    Fetch fetch;
  };
  std::map<std::string, File> files_;
};

}  // namespace shanty::ckpt
