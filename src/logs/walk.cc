#include "logs/walk.h"

#include <memory>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "logs/tar.h"
#include "logs/zip.h"
#include "os/files.h"

namespace shanty {
namespace {

constexpr size_t kHeadBytes = 512;

// What was read of the file that the walk is in, and what its archives made of it.
struct Meter {
  uint64_t in = 0;
  uint64_t out = 0;
};

class MeteredIn : public ByteSource {
 public:
  MeteredIn(std::unique_ptr<ByteSource> source, Meter& meter)
      : source_(std::move(source)), meter_(meter) {}
  Result<size_t> read(char* out, size_t capacity) override {
    const size_t got = TRY(source_->read(out, capacity));
    meter_.in += got;
    return got;
  }

 private:
  std::unique_ptr<ByteSource> source_;
  Meter& meter_;
};

// A file in an archive. Archives in archives multiply what each of them may unfold to.
class MeteredOut : public ByteSource {
 public:
  MeteredOut(ByteSource& source, Meter& meter) : source_(source), meter_(meter) {}
  Result<size_t> read(char* out, size_t capacity) override {
    TRY_STATUS(check_expansion(meter_.in, meter_.out));
    const size_t got = TRY(source_.read(out, capacity));
    meter_.out += got;
    return got;
  }

 private:
  ByteSource& source_;
  Meter& meter_;
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

  // A file that is in no archive.
  void top(const std::string& name, const std::string& path, int64_t modified_unix_ns,
           std::unique_ptr<ByteSource> source) {
    meter_ = {};
    stream(name, path, modified_unix_ns, std::make_unique<MeteredIn>(std::move(source), meter_), 0);
  }

 private:
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
    const std::string_view head = peek->peek(kHeadBytes);
    if (is_tar(head) || is_zip(head)) {
      archive(name, modified_unix_ns, *peek, archive_depth);
      return;
    }
    FoundFile found{.name = name,
                    .path = compression == Compression::kNone ? path : "",
                    .modified_unix_ns = modified_unix_ns,
                    .bytes = *peek};
    options_.file(found);
  }

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
    top(path, path, modified, fd_source(std::move(fd)));
  }

  void archive(const std::string& name, int64_t modified, PeekSource& bytes, size_t depth) {
    if (depth >= kMaxArchiveDepth) {
      options_.note(fmt::format("{}: archives nested too deep, left out", name));
      return;
    }
    const auto each = [&](const std::string& inner, ByteSource& content) {
      stream(name + ": " + inner, "", modified, std::make_unique<MeteredOut>(content, meter_),
             depth + 1);
    };
    const auto left_out = [&](const std::string& inner, const std::string& why) {
      options_.note(fmt::format("{}: {} was left out: {}", name, inner, why));
    };
    const Status status = is_zip(bytes.peek(kHeadBytes))
                              ? read_zip(bytes, {.each = each, .left_out = left_out})
                              : read_tar(bytes, each);
    if (!status) options_.note(fmt::format("{}: {}", name, status.error().message));
  }

  const WalkOptions& options_;
  Meter meter_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  size_t files_ = 0;
};

}  // namespace

Status walk(const std::string& path, const WalkOptions& options) {
  Walker walker(options);
  if (path == "-") {
    Fd fd(::dup(STDIN_FILENO));
    if (!fd.valid()) return errno_error("reading standard input");
    walker.top("<stdin>", "", 0, fd_source(std::move(fd)));
    return {};
  }
  if (::access(path.c_str(), R_OK) != 0) return errno_error("reading " + path);
  walker.tree(path, 0);
  return {};
}

}  // namespace shanty
