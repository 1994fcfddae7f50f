#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/fd.h"

namespace shanty {

// Bytes that come one after the other. One thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At most `capacity` bytes into `out`; 0 is the end.
  virtual Result<size_t> read(char* out, size_t capacity) = 0;
};

// Bytes whose beginning can be looked at before they are read.
class PeekSource : public ByteSource {
 public:
  explicit PeekSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  // The first `wanted` bytes, fewer at the end or after a failure, which read() then tells. Valid
  // until the next call.
  std::string_view peek(size_t wanted);
  Result<size_t> read(char* out, size_t capacity) override;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string head_;
  size_t taken_ = 0;
  std::string failure_;
};

// Lends out a source that somebody else owns.
class Borrowed : public ByteSource {
 public:
  explicit Borrowed(ByteSource& source) : source_(source) {}
  Result<size_t> read(char* out, size_t capacity) override { return source_.read(out, capacity); }

 private:
  ByteSource& source_;
};

std::unique_ptr<ByteSource> fd_source(Fd fd);
std::unique_ptr<ByteSource> memory_source(std::string bytes);

// What a compressed file may unfold to before it counts as a bomb: at most kMaxExpandRatio times
// what was read of it, beyond the first kFreeExpandBytes. Memory stays flat in any case.
inline constexpr uint64_t kMaxExpandRatio = 1000;
inline constexpr uint64_t kFreeExpandBytes = 1ull << 30;

Status check_expansion(uint64_t in, uint64_t out);

enum class Compression { kNone, kGzip, kZstd };
Compression compression_of(std::string_view head);
// The content of `source`; several members or frames one after the other are one file. A torn end
// is an error after all that could be read.
std::unique_ptr<ByteSource> decompress(Compression compression, std::unique_ptr<ByteSource> source);

// All of `source`; longer than `limit_bytes` is an error.
Result<std::string> read_all(ByteSource& source, size_t limit_bytes);

}  // namespace shanty
