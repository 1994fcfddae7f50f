#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ckpt/vfs.h"

namespace shanty::ckpt {

// Files that lie in memory, for reading only, so that a checkpoint in the slots of an engine is
// read and checked as one on storage is. The bytes must outlive this and its files.
class MemoryVfs : public Vfs {
 public:
  void add(const std::string& path, std::string_view bytes) { files_[path] = bytes; }

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
  std::map<std::string, std::string_view> files_;
};

}  // namespace shanty::ckpt
