#include <algorithm>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "ckpt/checked_file.h"
#include "ckpt/open_checkpoint.h"
#include "ckpt/parallel.h"
#include "ckpt/store_files.h"
#include "ckpt/xxh3.h"

namespace shanty::ckpt {
namespace {

constexpr uint64_t kReadBytes = 4 << 20;
static_assert(kReadBytes % kChunkBytes == 0);

// All damage of one file whose size is right.
std::vector<Damage> verify_file(Vfs& vfs, const std::string& directory, const StoredFile& stored,
                                const std::atomic<bool>* cancel) {
  std::vector<Damage> out;
  const auto add = [&](std::optional<uint64_t> chunk, std::string what) {
    out.push_back({.file = stored.path, .chunk = chunk, .what = std::move(what)});
  };
  const auto file =
      vfs.open(join_path(directory, stored.path), {.direct = true, .drop_cache = true});
  if (!file) {
    add(std::nullopt, "cannot be read: " + file.error().message);
    return out;
  }
  AlignedBuffer buffer(std::min<uint64_t>(kReadBytes, stored.bytes + kDataAlignment));
  Xxh3 xxh3;
  for (uint64_t at = 0; at < stored.bytes; at += kReadBytes) {
    if (cancel != nullptr && *cancel) return out;
    const uint64_t size = std::min(kReadBytes, stored.bytes - at);
    // More is asked for than there is, since direct reads go by whole blocks.
    const uint64_t blocks = (size + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    const auto count = (*file)->read_at(at, buffer.data(), blocks);
    if (!count || *count < size) {
      add(at / kChunkBytes, count ? "ends early" : "cannot be read: " + count.error().message);
      return out;
    }
    const std::string_view bytes(buffer.data(), size);
    for (uint64_t i = 0; i < size; i += kChunkBytes) {
      const uint64_t chunk = (at + i) / kChunkBytes;
      if (crc32c(bytes.substr(i, kChunkBytes)) != stored.crc32c[chunk]) {
        add(chunk, "checksum does not match");
      }
    }
    xxh3.add(bytes);
  }
  if (out.empty() && xxh3.hex_digest() != stored.xxh3) {
    add(std::nullopt, "its XXH3-128 does not match");
  }
  return out;
}

}  // namespace

std::vector<Damage> verify_checkpoint(Vfs& vfs, const std::string& directory, int threads,
                                      const std::atomic<bool>* cancel) {
  const auto manifest = load_manifest(vfs, directory);
  if (!manifest) {
    return {
        {.file = std::string(kManifestName), .what = "is not whole: " + manifest.error().message}};
  }
  std::vector<Damage> out = check_sizes(vfs, directory, *manifest);
  const auto has_wrong_size = [&, wrong = out](const StoredFile& file) {
    return std::any_of(wrong.begin(), wrong.end(),
                       [&](const Damage& damage) { return damage.file == file.path; });
  };
  std::mutex mutex;
  for_each_parallel(manifest->files.size(), threads, [&](size_t i) {
    const StoredFile& file = manifest->files[i];
    if (has_wrong_size(file)) return true;
    const std::vector<Damage> damage = verify_file(vfs, directory, file, cancel);
    const std::lock_guard lock(mutex);
    out.insert(out.end(), damage.begin(), damage.end());
    return true;
  });
  std::sort(out.begin(), out.end(), [](const Damage& a, const Damage& b) {
    return std::tie(a.file, a.chunk) < std::tie(b.file, b.chunk);
  });
  return out;
}

}  // namespace shanty::ckpt
