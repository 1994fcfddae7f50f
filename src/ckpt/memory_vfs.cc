#include "ckpt/memory_vfs.h"

#include <algorithm>
#include <cstring>

namespace shanty::ckpt {
namespace {

Error read_only(const std::string& path) {
  return Error{"changing " + path + ": what lies in memory can only be read"};
}

class MemoryFile : public VfsFile {
 public:
  MemoryFile(std::string path, uint64_t size, MemoryVfs::Fetch fetch)
      : path_(std::move(path)), size_(size), fetch_(std::move(fetch)) {}
  Status write_at(uint64_t /*offset*/, std::string_view /*bytes*/) override {
    return read_only(path_);
  }
  Result<size_t> read_at(uint64_t offset, char* out, size_t size) override {
    if (offset >= size_) return size_t{0};
    const size_t count = std::min<uint64_t>(size, size_ - offset);
    TRY_STATUS(fetch_(offset, out, count));
    return count;
  }
  Status truncate(uint64_t /*size*/) override { return read_only(path_); }
  Status allocate(uint64_t /*size*/) override { return read_only(path_); }
  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  std::string path_;
  uint64_t size_;
  MemoryVfs::Fetch fetch_;
};

}  // namespace

void MemoryVfs::add(const std::string& path, std::string_view bytes) {
  add_remote(path, bytes.size(), [bytes](uint64_t offset, char* out, size_t size) -> Status {
    std::memcpy(out, bytes.data() + offset, size);
    return {};
  });
}

void MemoryVfs::add_remote(const std::string& path, uint64_t size, Fetch fetch) {
  files_[path] = {size, std::move(fetch)};
}

Result<std::unique_ptr<VfsFile>> MemoryVfs::open(const std::string& path, OpenOptions options) {
  if (options.create || options.write) return read_only(path);
  const auto file = files_.find(path);
  if (file == files_.end()) return Error{"opening " + path + ": it is not in memory"};
  return std::unique_ptr<VfsFile>(
      std::make_unique<MemoryFile>(path, file->second.size, file->second.fetch));
}

Result<FileInfo> MemoryVfs::info(const std::string& path) {
  const auto file = files_.find(path);
  if (file == files_.end()) return FileInfo{};
  return FileInfo{.exists = true, .is_directory = false, .size = file->second.size};
}

Result<std::vector<std::string>> MemoryVfs::list(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& [path, file] : files_) {
    if (path.starts_with(directory + "/")) names.push_back(path.substr(directory.size() + 1));
  }
  return names;
}

Status MemoryVfs::make_directory(const std::string& path) { return read_only(path); }
Status MemoryVfs::rename(const std::string& from, const std::string& /*to*/) {
  return read_only(from);
}
Status MemoryVfs::remove_file(const std::string& path) { return read_only(path); }
Status MemoryVfs::remove_directory(const std::string& path) { return read_only(path); }
Status MemoryVfs::hard_link(const std::string& from, const std::string& /*to*/) {
  return read_only(from);
}
Status MemoryVfs::replace_link(const std::string& path, const std::string& /*text*/) {
  return read_only(path);
}
Status MemoryVfs::sync_directory(const std::string& path) { return read_only(path); }

}  // namespace shanty::ckpt
