// passthrough DIRECTORY MOUNTPOINT [FUSE OPTIONS]: shows DIRECTORY at MOUNTPOINT, in the foreground
// until it is unmounted. By one thread, so that a stopped process is a file system between two
// operations. The kernel may cache listings; how long it caches attributes and names is up to the
// options.

#define FUSE_USE_VERSION 31

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace {

std::string& root() {
  static std::string path;
  return path;
}

std::string real(const char* path) { return root() + path; }
int fd_of(const fuse_file_info* info) { return static_cast<int>(info->fh); }

// libfuse's functions return 0 or a negative errno.
int outcome(int result) { return result == 0 ? 0 : -errno; }
int count_of(ssize_t result) { return result < 0 ? -errno : static_cast<int>(result); }

int get_attributes(const char* path, struct stat* out, fuse_file_info* info) {
  if (info != nullptr) return outcome(::fstat(fd_of(info), out));
  return outcome(::lstat(real(path).c_str(), out));
}

int read_link(const char* path, char* out, size_t size) {
  const ssize_t length = ::readlink(real(path).c_str(), out, size - 1);
  if (length < 0) return -errno;
  out[length] = '\0';
  return 0;
}

int make_directory(const char* path, mode_t mode) {
  return outcome(::mkdir(real(path).c_str(), mode));
}

int remove_file(const char* path) { return outcome(::unlink(real(path).c_str())); }
int remove_directory(const char* path) { return outcome(::rmdir(real(path).c_str())); }

int make_link(const char* text, const char* path) {
  return outcome(::symlink(text, real(path).c_str()));
}

int rename_entry(const char* from, const char* to, unsigned flags) {
  if (flags != 0) return -EINVAL;
  return outcome(::rename(real(from).c_str(), real(to).c_str()));
}

int link_file(const char* from, const char* to) {
  return outcome(::link(real(from).c_str(), real(to).c_str()));
}

int cut_file(const char* path, off_t size, fuse_file_info* info) {
  if (info != nullptr) return outcome(::ftruncate(fd_of(info), size));
  return outcome(::truncate(real(path).c_str(), size));
}

int keep(int fd, fuse_file_info* info) {
  if (fd < 0) return -errno;
  info->fh = static_cast<uint64_t>(fd);
  return 0;
}

// O_DIRECT is for the layer above.
int open_file(const char* path, fuse_file_info* info) {
  return keep(::open(real(path).c_str(), (info->flags & ~O_DIRECT) | O_CLOEXEC), info);
}

int create_file(const char* path, mode_t mode, fuse_file_info* info) {
  return keep(::open(real(path).c_str(), (info->flags & ~O_DIRECT) | O_CREAT | O_CLOEXEC, mode),
              info);
}

int read_file(const char*, char* out, size_t size, off_t at, fuse_file_info* info) {
  return count_of(::pread(fd_of(info), out, size, at));
}

int write_file(const char*, const char* data, size_t size, off_t at, fuse_file_info* info) {
  return count_of(::pwrite(fd_of(info), data, size, at));
}

int sync_file(const char*, int data_only, fuse_file_info* info) {
  return outcome(data_only != 0 ? ::fdatasync(fd_of(info)) : ::fsync(fd_of(info)));
}

int release_file(const char*, fuse_file_info* info) { return outcome(::close(fd_of(info))); }

int open_directory(const char* path, fuse_file_info* info) {
  info->cache_readdir = 1;
  info->keep_cache = 1;
  return keep(::open(real(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), info);
}

int list_directory(const char* path, void* out, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                   fuse_readdir_flags) {
  DIR* directory = ::opendir(real(path).c_str());
  if (directory == nullptr) return -errno;
  while (const dirent* entry = ::readdir(directory)) {
    fill(out, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  return outcome(::closedir(directory));
}

int tell_space(const char* path, struct statvfs* out) {
  return outcome(::statvfs(real(path).c_str(), out));
}

fuse_operations operations() {
  fuse_operations table{};
  table.getattr = get_attributes;
  table.readlink = read_link;
  table.mkdir = make_directory;
  table.unlink = remove_file;
  table.rmdir = remove_directory;
  table.symlink = make_link;
  table.rename = rename_entry;
  table.link = link_file;
  table.truncate = cut_file;
  table.open = open_file;
  table.create = create_file;
  table.read = read_file;
  table.write = write_file;
  table.fsync = sync_file;
  table.release = release_file;
  table.opendir = open_directory;
  table.readdir = list_directory;
  table.fsyncdir = sync_file;
  table.releasedir = release_file;
  table.statfs = tell_space;
  return table;
}

}  // namespace

int main(int argc, char** argv) {
  char* directory = argc < 3 ? nullptr : ::realpath(argv[1], nullptr);
  if (directory == nullptr) return 2;
  root() = directory;
  std::string foreground = "-f";
  std::string one_thread = "-s";
  std::vector<char*> arguments = {argv[0], foreground.data(), one_thread.data()};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  const fuse_operations table = operations();
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &table, nullptr);
}
