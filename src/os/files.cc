#include "os/files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/random.h"

namespace shanty {
namespace {

constexpr size_t kReadChunkBytes = 64 * 1024;

std::string parent_directory(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Its own for each call: several machines may write the same file of a shared directory.
std::string temporary_name(const std::string& path) {
  return path + ".tmp-" + hex(secure_random_bytes(4));
}

Status write_temporary(const std::string& path, std::string_view content, bool durable) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno_error("creating " + path);
  TRY_STATUS(write_all(fd.get(), content).context("writing " + path));
  if (durable && ::fsync(fd.get()) != 0) return errno_error("fsync of " + path);
  if (::close(fd.release()) != 0) return errno_error("closing " + path);
  return {};
}

// A failed attempt leaves nothing: on a full disk there is one every second.
Status write_beside_and_rename(const std::string& path, std::string_view content, bool durable) {
  const std::string temporary = temporary_name(path);
  Status status = write_temporary(temporary, content, durable);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = errno_error("renaming onto " + path);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error("opening " + path);
  std::string content;
  while (true) {
    const size_t old_size = content.size();
    content.resize(old_size + kReadChunkBytes);
    const ssize_t n = ::read(fd.get(), content.data() + old_size, kReadChunkBytes);
    if (n < 0 && errno != EINTR) return errno_error("reading " + path);
    content.resize(old_size + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return content;
    if (content.size() > limit_bytes) {
      return Error{"reading " + path + ": larger than the limit of " + std::to_string(limit_bytes) +
                   " bytes"};
    }
  }
}

Status write_file_atomically(const std::string& path, std::string_view content) {
  TRY_STATUS(write_beside_and_rename(path, content, true));
  Fd directory(::open(parent_directory(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::fsync(directory.get()) != 0) {
    return errno_error("fsync of the directory of " + path);
  }
  return {};
}

Status replace_file(const std::string& path, std::string_view content) {
  return write_beside_and_rename(path, content, false);
}

Status make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return Error{"creating directory " + path + ": " + error.message()};
  return {};
}

bool file_exists(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0;
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno_error("write");
    }
  }
  return {};
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return errno_error("listing " + path);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

Status remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return Error{"removing " + path + ": " + error.message()};
  return {};
}

Result<AppendFile> AppendFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno_error("opening " + path + " to append");
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return errno_error("stat of " + path);
  return AppendFile(std::move(fd), path, static_cast<uint64_t>(st.st_size));
}

Status AppendFile::append(std::string_view bytes) {
  TRY_STATUS(write_all(fd_.get(), bytes).context("appending to " + path_));
  size_bytes_ += bytes.size();
  return {};
}

Status AppendFile::find_end() {
  struct stat st{};
  if (::fstat(fd_.get(), &st) != 0) return errno_error("stat of " + path_);
  size_bytes_ = static_cast<uint64_t>(st.st_size);
  return {};
}

Result<SharedLock> SharedLock::take(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno_error("opening lock " + path);
  if (::flock(fd.get(), LOCK_SH) != 0) return errno_error("locking " + path);
  return SharedLock(std::move(fd));
}

bool SharedLock::held_by_someone(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK;
}

}  // namespace shanty
