#include "ckpt/checked_file.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"
#include "ckpt/store_files.h"

namespace shanty::ckpt {

AlignedBuffer::AlignedBuffer(size_t size)
    : data_(static_cast<char*>(std::aligned_alloc(
          kDataAlignment,
          std::max<size_t>((size + kDataAlignment - 1) / kDataAlignment, 1) * kDataAlignment))),
      size_(size) {
  CHECK(data_ != nullptr);
}

void AlignedBuffer::Free::operator()(char* p) const { std::free(p); }

std::optional<std::string> visible_twin(const std::string& directory) {
  const size_t slash = directory.rfind('/');
  const std::string name = directory.substr(slash + 1);
  const auto id = parse_checkpoint_name(name);
  if (!id || !is_in_progress_name(name) || slash == std::string::npos) return std::nullopt;
  return join_path(directory.substr(0, slash), visible_name(*id));
}

CheckedFile::CheckedFile(Vfs& vfs, std::string directory, const StoredFile& stored)
    : vfs_(vfs),
      directory_(std::move(directory)),
      stored_(stored),
      checked_(stored.crc32c.size()) {}

Result<VfsFile*> CheckedFile::file() {
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr) return file_.get();
  auto opened = vfs_.open(join_path(directory_, stored_.path), {});
  if (const auto twin = visible_twin(directory_); !opened.ok() && twin) {
    opened = vfs_.open(join_path(*twin, stored_.path), {});
  }
  if (!opened) return opened.error();
  file_ = std::move(*opened);
  return file_.get();
}

std::optional<Damage> CheckedFile::read_range(uint64_t begin, uint64_t end, char* out) {
  const auto opened = file();
  if (!opened) {
    return Damage{.file = stored_.path, .what = "cannot be read: " + opened.error().message};
  }
  const uint64_t chunk = begin / kChunkBytes;
  const auto count = (*opened)->read_at(begin, out, end - begin);
  if (!count) {
    return Damage{
        .file = stored_.path, .chunk = chunk, .what = "cannot be read: " + count.error().message};
  }
  if (*count < end - begin) {
    return Damage{.file = stored_.path,
                  .chunk = (begin + *count) / kChunkBytes,
                  .what = fmt::format("ends {} bytes early", end - begin - *count)};
  }
  return std::nullopt;
}

std::optional<Damage> CheckedFile::read_chunks(uint64_t first, uint64_t last, char* out) {
  const uint64_t begin = first * kChunkBytes;
  const uint64_t end = std::min(last * kChunkBytes, stored_.bytes);
  if (auto damage = read_range(begin, end, out)) return damage;
  for (uint64_t chunk = first; chunk < last; ++chunk) {
    const uint64_t at = chunk * kChunkBytes;
    const size_t size = std::min(kChunkBytes, stored_.bytes - at);
    if (crc32c(out + (at - begin), size) != stored_.crc32c[chunk]) {
      return Damage{.file = stored_.path, .chunk = chunk, .what = "checksum does not match"};
    }
    checked_[chunk] = 1;
  }
  return std::nullopt;
}

std::optional<Damage> CheckedFile::read_again(uint64_t begin, uint64_t end, char* out) {
  return read_range(begin, end, out);
}

}  // namespace shanty::ckpt
