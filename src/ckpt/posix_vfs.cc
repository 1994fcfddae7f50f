#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/random.h"
#include "ckpt/vfs.h"
#include "os/fd.h"
#include "os/files.h"

namespace shanty::ckpt {
namespace {

class PosixFile : public VfsFile {
 public:
  PosixFile(Fd fd, std::string path, bool direct)
      : fd_(std::move(fd)), path_(std::move(path)), direct_(direct) {}

  Status write_at(uint64_t offset, std::string_view bytes) override {
    while (!bytes.empty()) {
      const bool direct = direct_;
      const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL && direct && leave_direct()) continue;
      if (n < 0) return errno_error("writing " + path_);
      if (n == 0) return Error{"writing " + path_ + ": the file takes no more bytes"};
      offset += static_cast<uint64_t>(n);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }

  Result<size_t> read_at(uint64_t offset, char* out, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const bool direct = direct_;
      const ssize_t n =
          ::pread(fd_.get(), out + done, size - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL && direct && leave_direct()) continue;
      if (n < 0) return errno_error("reading " + path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  Status truncate(uint64_t size) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
      return errno_error("cutting " + path_ + " to its size");
    }
    return {};
  }

  Status allocate(uint64_t size) override {
    int rc = 0;
    do {
      rc = ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size));
    } while (rc != 0 && errno == EINTR);
    if (rc == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return {};
    return errno_error("making room for " + path_);
  }

  Status sync() override {
    if (::fdatasync(fd_.get()) != 0) return errno_error("syncing " + path_);
    return {};
  }

  // An interrupted close is an error like any other: Linux has let go of the descriptor, and what
  // the storage said about the last bytes is not known.
  Status close() override {
    if (::close(fd_.release()) != 0) return errno_error("closing " + path_);
    return {};
  }

 private:
  // Some file systems open with O_DIRECT and then refuse to write so, and none writes the rest
  // after a write that ended within a block. True when it is worth another try, for each of the
  // threads that were refused.
  bool leave_direct() {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    const bool left = flags >= 0 && ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
    direct_ = false;
    return left;
  }

  Fd fd_;
  std::string path_;
  std::atomic<bool> direct_;
};

int open_flags(const OpenOptions& options) {
  int flags = O_CLOEXEC | (options.write ? O_RDWR : O_RDONLY);
  if (options.create) flags |= O_CREAT | O_EXCL;
  return flags;
}

class PosixVfs : public Vfs {
 public:
  Result<std::unique_ptr<VfsFile>> open(const std::string& path, OpenOptions options) override {
    const int flags = open_flags(options);
    Fd fd(::open(path.c_str(), flags | (options.direct ? O_DIRECT : 0), 0644));
    bool direct = options.direct;
    if (!fd.valid() && errno == EINVAL && direct) {
      // tmpfs before Linux 6.6 and FUSE refuse it, and may have made the file by then.
      direct = false;
      fd = Fd(::open(path.c_str(), flags & ~O_EXCL, 0644));
    }
    if (!fd.valid()) return errno_error((options.create ? "creating " : "opening ") + path);
    // Advice: a kernel that does not take it reads from its cache.
    if (options.drop_cache) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    return std::unique_ptr<VfsFile>(std::make_unique<PosixFile>(std::move(fd), path, direct));
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return FileInfo{};
      return errno_error("looking at " + path);
    }
    return FileInfo{.exists = true,
                    .is_directory = S_ISDIR(st.st_mode),
                    .size = static_cast<uint64_t>(st.st_size)};
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    return list_directory(directory);
  }

  Status make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) != 0) return errno_error("making directory " + path);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return errno_error("renaming " + from + " to " + to);
  }

  Status remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return errno_error("removing " + path);
    return {};
  }

  Status remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) return errno_error("removing directory " + path);
    return {};
  }

  Status hard_link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) != 0) {
      return errno_error("linking " + from + " to " + to);
    }
    return {};
  }

  Status replace_link(const std::string& path, const std::string& text) override {
    const std::string temporary = path + ".tmp-" + hex(secure_random_bytes(4));
    if (::symlink(text.c_str(), temporary.c_str()) != 0) {
      return errno_error("making the link " + temporary);
    }
    Status renamed = rename(temporary, path);
    if (!renamed.ok()) ::unlink(temporary.c_str());
    return renamed;
  }

  Status sync_directory(const std::string& path) override {
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return errno_error("opening directory " + path + " to sync it");
    // EINVAL: a file system that has nothing to sync in a directory says so (some network ones).
    if (::fsync(fd.get()) != 0 && errno != EINVAL) return errno_error("syncing directory " + path);
    if (::close(fd.release()) != 0) return errno_error("closing directory " + path);
    return {};
  }
};

}  // namespace

Vfs& posix_vfs() {
  static PosixVfs vfs;
  return vfs;
}

}  // namespace shanty::ckpt
