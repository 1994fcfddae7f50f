#include "logs/walk.h"

#include <memory>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "logs/tar.h"
#include "os/files.h"

namespace shanty {
namespace {

constexpr size_t kHeadBytes = 512;

// Lends out a source that somebody else owns.
class Borrowed : public ByteSource {
 public:
  explicit Borrowed(ByteSource& source) : source_(source) {}
  Result<size_t> read(char* out, size_t capacity) override { return source_.read(out, capacity); }

 private:
  ByteSource& source_;
};

class Walker {
 public:
  explicit Walker(const WalkOptions& options) : options_(options) {}

  void tree(const std::string& path, size_t depth) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
      options_.note(errno_error(path).message);
    } else if (S_ISDIR(info.st_mode)) {
      directory(path, info, depth);
    } else if (S_ISREG(info.st_mode) && seen_.insert({info.st_dev, info.st_ino}).second) {
      file(path, info);
    } else if (depth == 0 && !S_ISREG(info.st_mode)) {
      file(path, info);  // a pipe that the user named
    }
  }

  void stream(const std::string& name, const std::string& path, int64_t modified_unix_ns,
              std::unique_ptr<ByteSource> source, size_t archive_depth) {
    if (++files_ > kMaxWalkFiles) {
      if (files_ == kMaxWalkFiles + 1) {
        options_.note(fmt::format("only the first {} files were read", kMaxWalkFiles));
      }
      return;
    }
    auto peek = std::make_unique<PeekSource>(std::move(source));
    const Compression compression = compression_of(peek->peek(4));
    if (compression != Compression::kNone) {
      peek = std::make_unique<PeekSource>(decompress(compression, std::move(peek)));
    }
    if (is_tar(peek->peek(kHeadBytes))) {
      archive(name, modified_unix_ns, *peek, archive_depth);
      return;
    }
    FoundFile found{.name = name,
                    .path = compression == Compression::kNone ? path : "",
                    .modified_unix_ns = modified_unix_ns,
                    .bytes = *peek};
    options_.file(found);
  }

 private:
  void directory(const std::string& path, const struct stat& info, size_t depth) {
    if (depth > kMaxWalkDepth) {
      options_.note(fmt::format("{}: nested too deep, left out", path));
      return;
    }
    if (!seen_.insert({info.st_dev, info.st_ino}).second) return;
    if (options_.directory && !options_.directory(path)) return;
    const auto names = list_directory(path);
    if (!names) {
      options_.note(names.error().message);
      return;
    }
    const std::string below = path.ends_with('/') ? path : path + "/";
    for (const std::string& name : *names) tree(below + name, depth + 1);
  }

  void file(const std::string& path, const struct stat& info) {
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
      options_.note(errno_error("opening " + path).message);
      return;
    }
    const int64_t modified =
        static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
    stream(path, path, modified, fd_source(std::move(fd)), 0);
  }

  void archive(const std::string& name, int64_t modified, ByteSource& bytes, size_t depth) {
    if (depth >= kMaxArchiveDepth) {
      options_.note(fmt::format("{}: archives nested too deep, left out", name));
      return;
    }
    const auto each = [&](const std::string& inner, ByteSource& content) {
      stream(name + ": " + inner, "", modified, std::make_unique<Borrowed>(content), depth + 1);
    };
    const Status status = read_tar(bytes, each);
    if (!status) options_.note(fmt::format("{}: {}", name, status.error().message));
  }

  const WalkOptions& options_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  size_t files_ = 0;
};

}  // namespace

Status walk(const std::string& path, const WalkOptions& options) {
  Walker walker(options);
  if (path == "-") {
    Fd fd(::dup(STDIN_FILENO));
    if (!fd.valid()) return errno_error("reading standard input");
    walker.stream("<stdin>", "", 0, fd_source(std::move(fd)), 0);
    return {};
  }
  if (::access(path.c_str(), R_OK) != 0) return errno_error("reading " + path);
  walker.tree(path, 0);
  return {};
}

}  // namespace shanty
