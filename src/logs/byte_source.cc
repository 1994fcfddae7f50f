#include "logs/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "base/units.h"

namespace shanty {
namespace {

class FdSource : public ByteSource {
 public:
  explicit FdSource(Fd fd) : fd_(std::move(fd)) {}
  Result<size_t> read(char* out, size_t capacity) override {
    while (true) {
      const ssize_t got = ::read(fd_.get(), out, capacity);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return errno_error("reading");
    }
  }

 private:
  Fd fd_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<size_t> read(char* out, size_t capacity) override {
    const size_t size = std::min(capacity, bytes_.size() - taken_);
    std::memcpy(out, bytes_.data() + taken_, size);
    taken_ += size;
    return size;
  }

 private:
  std::string bytes_;
  size_t taken_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> fd_source(Fd fd) { return std::make_unique<FdSource>(std::move(fd)); }

std::unique_ptr<ByteSource> memory_source(std::string bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

std::string_view PeekSource::peek(size_t wanted) {
  if (taken_ > wanted) head_.erase(0, taken_), taken_ = 0;
  while (head_.size() - taken_ < wanted && failure_.empty()) {
    const size_t had = head_.size();
    head_.resize(taken_ + wanted);
    const auto got = source_->read(head_.data() + had, head_.size() - had);
    head_.resize(had + (got ? *got : 0));
    if (!got) failure_ = got.error().message;
    if (!got || *got == 0) break;
  }
  return std::string_view(head_).substr(taken_, wanted);
}

Result<size_t> PeekSource::read(char* out, size_t capacity) {
  if (taken_ < head_.size()) {
    const size_t size = std::min(capacity, head_.size() - taken_);
    std::memcpy(out, head_.data() + taken_, size);
    taken_ += size;
    if (taken_ == head_.size()) head_.clear(), taken_ = 0;
    return size;
  }
  if (!failure_.empty()) return Error{failure_};
  return source_->read(out, capacity);
}

Result<std::string> read_all(ByteSource& source, size_t limit_bytes) {
  std::string all;
  constexpr size_t kStep = 256 * 1024;
  while (true) {
    const size_t had = all.size();
    all.resize(had + kStep);
    const size_t got = TRY(source.read(all.data() + had, kStep));
    all.resize(had + got);
    if (got == 0) return all;
    if (all.size() > limit_bytes) {
      return Error{fmt::format("longer than the limit of {}", format_bytes(limit_bytes))};
    }
  }
}

}  // namespace shanty
