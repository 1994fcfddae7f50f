#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "ckpt/background.h"
#include "ckpt/store.h"
#include "ckpt/xxh3.h"

namespace shanty::ckpt {
namespace {

constexpr uint64_t kWriteBytes = 4 << 20;
constexpr int kMaxThreads = 64;
static_assert(kWriteBytes % kChunkBytes == 0);

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Returns once `bytes` are there.
Status wait_for(std::string_view bytes, const WriteOptions& options) {
  if (options.arrival == nullptr) return {};
  return options.arrival->wait_for(bytes.data() + bytes.size());
}

// Writes one image by several threads, each taking the next 4 MiB, while one takes the checksums:
// the storage never waits for these, and memory is passed over once for both kinds.
class ImageWriter {
 public:
  ImageWriter(VfsFile& file, std::string_view image, bool padded, const WriteOptions& options)
      : file_(file), image_(image), padded_(padded), options_(options) {}

  // `crcs` is filled where it has no entries yet.
  Status run(std::vector<uint32_t>& crcs, Xxh3& xxh3) {
    const uint64_t parts = (image_.size() + kWriteBytes - 1) / kWriteBytes;
    const auto wanted = static_cast<uint64_t>(std::clamp(options_.threads, 1, kMaxThreads));
    // A file of one part is not worth a thread.
    if (parts <= 1) {
      write_parts();
      add_checksums(crcs, xxh3);
      return failure_;
    }
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < std::min(parts, wanted); ++i) {
      threads.emplace_back([this] {
        work_in_background();
        write_parts();
      });
    }
    threads.emplace_back([&] {
      work_in_background();
      add_checksums(crcs, xxh3);
    });
    for (std::thread& thread : threads) thread.join();
    return failure_;
  }

 private:
  // Once all is there: taken earlier, they hold up the copy, for which the trainer may wait.
  void add_checksums(std::vector<uint32_t>& crcs, Xxh3& xxh3) {
    if (!wait_for(image_, options_).ok()) return;  // the writes say why
    const bool compute = crcs.empty();
    for (uint64_t at = 0; at < image_.size() && !failed_.load(); at += kChunkBytes) {
      const std::string_view chunk = image_.substr(at, kChunkBytes);
      if (compute) crcs.push_back(crc32c(chunk));
      xxh3.add(chunk);
    }
  }

  void write_parts() {
    while (true) {
      const uint64_t at = next_part_.fetch_add(1) * kWriteBytes;
      if (at >= image_.size() || failed_.load()) return;
      const Status written = write_part(at);
      if (!written.ok()) return fail(written);
    }
  }

  Status write_part(uint64_t at) {
    const std::string_view part = image_.substr(at, kWriteBytes);
    TRY_STATUS(wait_for(part, options_));
    if (!may_write(part.size())) return Error{"the save was cancelled"};
    const uint64_t size = padded_ ? round_up(part.size(), kDataAlignment) : part.size();
    return file_.write_at(at, {part.data(), size});
  }

  bool may_write(uint64_t bytes) {
    if (options_.limit != nullptr) return options_.limit->wait_for(bytes, options_.cancel);
    return options_.cancel == nullptr || !options_.cancel->load();
  }

  void fail(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
    failed_ = true;
  }

  VfsFile& file_;
  std::string_view image_;
  bool padded_;
  const WriteOptions& options_;
  std::atomic<uint64_t> next_part_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status failure_;
};

Status write_and_sync(VfsFile& file, std::string_view image, bool direct, StoredFile& stored,
                      const WriteOptions& options) {
  // Direct writes to where a file has no room yet follow one another on ext4, whoever writes them.
  if (image.size() > kWriteBytes) TRY_STATUS(file.allocate(round_up(image.size(), kDataAlignment)));
  Xxh3 xxh3;
  TRY_STATUS(ImageWriter(file, image, direct, options).run(stored.crc32c, xxh3));
  stored.xxh3 = xxh3.hex_digest();
  if (image.size() % kDataAlignment != 0 && (direct || image.size() > kWriteBytes)) {
    TRY_STATUS(file.truncate(image.size()));
  }
  TRY_STATUS(file.sync());
  return file.close();
}

}  // namespace

std::vector<uint32_t> chunk_checksums(std::string_view bytes) {
  std::vector<uint32_t> sums;
  for (uint64_t at = 0; at < bytes.size(); at += kChunkBytes) {
    sums.push_back(crc32c(bytes.substr(at, kChunkBytes)));
  }
  return sums;
}

Result<StoredFile> write_image(Vfs& vfs, const std::string& in_progress_dir,
                               const std::string& path, int rank, std::string_view image,
                               std::vector<uint32_t> crc32c, const WriteOptions& options) {
  StoredFile stored{.path = path, .rank = rank, .bytes = image.size(), .crc32c = std::move(crc32c)};
  const uint64_t chunks = (image.size() + kChunkBytes - 1) / kChunkBytes;
  if (!stored.crc32c.empty() && stored.crc32c.size() != chunks) {
    return Error{fmt::format("writing {}: {} checksums were given for {} chunks", path,
                             stored.crc32c.size(), chunks)};
  }
  const std::string full_path = in_progress_dir + "/" + path;
  const bool direct =
      options.direct && reinterpret_cast<uintptr_t>(image.data()) % kDataAlignment == 0;
  const auto file = TRY(vfs.open(full_path, {.create = true, .write = true, .direct = direct}));
  const Status written = write_and_sync(*file, image, direct, stored, options);
  if (written.ok()) return stored;
  discard(vfs.remove_file(full_path), "the attempt is given up with its directory anyway");
  return written.error();
}

Result<StoredFile> link_or_write_image(Vfs& vfs, const std::string& in_progress_dir,
                                       const std::string& path, int rank, std::string_view image,
                                       const LinkSource& source, const WriteOptions& options) {
  const auto before = std::find_if(
      source.files.begin(), source.files.end(),
      [&](const StoredFile& file) { return file.path == path && file.bytes == image.size(); });
  // The checksums of what cannot be linked are taken beside the writes.
  if (before == source.files.end()) {
    return write_image(vfs, in_progress_dir, path, rank, image, {}, options);
  }
  TRY_STATUS(wait_for(image, options));
  Xxh3 xxh3;
  xxh3.add(image);
  StoredFile stored{.path = path,
                    .rank = rank,
                    .bytes = image.size(),
                    .crc32c = chunk_checksums(image),
                    .xxh3 = xxh3.hex_digest()};
  const bool same = before->crc32c == stored.crc32c && before->xxh3 == stored.xxh3;
  if (same) {
    const std::string there = source.directory + "/" + path;
    const auto info = vfs.info(there);
    // Any failure has the same answer: the source was pruned, no links here, too many of one file.
    if (info.ok() && info->exists && info->size == stored.bytes &&
        vfs.hard_link(there, in_progress_dir + "/" + path).ok()) {
      return stored;
    }
  }
  return write_image(vfs, in_progress_dir, path, rank, image, std::move(stored.crc32c), options);
}

Status sync_written(Vfs& vfs, const std::string& in_progress_dir,
                    const std::vector<StoredFile>& files) {
  std::set<std::string> directories = {in_progress_dir};
  for (const StoredFile& file : files) {
    const size_t slash = file.path.rfind('/');
    if (slash == std::string::npos) continue;
    directories.insert(in_progress_dir + "/" + file.path.substr(0, slash));
  }
  for (const std::string& directory : directories) TRY_STATUS(vfs.sync_directory(directory));
  return {};
}

}  // namespace shanty::ckpt
