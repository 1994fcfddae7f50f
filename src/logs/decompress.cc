#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include <fmt/format.h>

#include "logs/byte_source.h"

namespace shanty {
namespace {

constexpr size_t kInputBytes = 256 * 1024;
constexpr int kMaxZstdWindowLog = 27;  // 128 MiB of memory, what `zstd -d` takes without asking

// What gzip and zstd have in common: compressed input in a buffer, and the limit.
class Decompressor : public ByteSource {
 public:
  explicit Decompressor(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), input_(kInputBytes) {}

  Result<size_t> read(char* out, size_t capacity) override {
    while (true) {
      if (begin_ == end_ && !source_ended_) {
        begin_ = 0;
        end_ = TRY(source_->read(input_.data(), input_.size()));
        source_ended_ = end_ == 0;
        in_ += end_;
      }
      if (source_ended_ && !in_frame_) return size_t{0};
      const size_t made = TRY(decode(out, capacity));
      out_ += made;
      TRY_STATUS(check_expansion(in_, out_));
      if (made > 0) return made;
      if (source_ended_ && in_frame_) return Error{"the compressed file ends in the middle"};
    }
  }

 protected:
  // Takes from input [begin_, end_) and keeps in_frame_.
  virtual Result<size_t> decode(char* out, size_t capacity) = 0;

  std::unique_ptr<ByteSource> source_;
  std::vector<char> input_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool source_ended_ = false;
  bool in_frame_ = false;
  uint64_t in_ = 0;
  uint64_t out_ = 0;
};

class GzipSource : public Decompressor {
 public:
  using Decompressor::Decompressor;
  ~GzipSource() override {
    if (ready_) inflateEnd(&stream_);
  }

 private:
  Result<size_t> decode(char* out, size_t capacity) override {
    if (!ready_) {
      if (inflateInit2(&stream_, 15 + 16) != Z_OK) return Error{"no memory to decompress"};
      ready_ = true;
    }
    capacity = std::min<size_t>(capacity, 1u << 30);
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data() + begin_);
    stream_.avail_in = static_cast<uInt>(end_ - begin_);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(capacity);
    if (!in_frame_) {
      // What follows a member and is no other one is padding, as gzip itself takes it.
      if (out_ > 0 && static_cast<unsigned char>(input_[begin_]) != 0x1f) {
        begin_ = end_;
        source_ended_ = true;
        return size_t{0};
      }
      inflateReset(&stream_);
      in_frame_ = true;
    }
    const int rc = inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    if (rc == Z_STREAM_END) {
      in_frame_ = false;
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
      return Error{fmt::format("the gzip data is damaged ({})", stream_.msg ? stream_.msg : "?")};
    }
    return capacity - stream_.avail_out;
  }

  z_stream stream_{};
  bool ready_ = false;
};

class ZstdSource : public Decompressor {
 public:
  explicit ZstdSource(std::unique_ptr<ByteSource> source)
      : Decompressor(std::move(source)), stream_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }

 private:
  Result<size_t> decode(char* out, size_t capacity) override {
    ZSTD_inBuffer in{input_.data() + begin_, end_ - begin_, 0};
    ZSTD_outBuffer to{out, capacity, 0};
    const size_t left = ZSTD_decompressStream(stream_.get(), &to, &in);
    if (ZSTD_isError(left)) {
      return Error{fmt::format("the zstd data is damaged ({})", ZSTD_getErrorName(left))};
    }
    begin_ += in.pos;
    in_frame_ = left != 0;
    return to.pos;
  }

  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> stream_;
};

}  // namespace

Status check_expansion(uint64_t in, uint64_t out) {
  if (out <= kFreeExpandBytes || out / kMaxExpandRatio <= in) return {};
  return Error{fmt::format(
      "decompressing stopped after {} bytes made of {}: more than {} times is taken for a bomb; "
      "decompress it yourself if it is none",
      out, in, kMaxExpandRatio)};
}

Compression compression_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return Compression::kGzip;
  if (head.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  return Compression::kNone;
}

std::unique_ptr<ByteSource> decompress(Compression compression,
                                       std::unique_ptr<ByteSource> source) {
  switch (compression) {
    case Compression::kNone:
      return source;
    case Compression::kGzip:
      return std::make_unique<GzipSource>(std::move(source));
    case Compression::kZstd:
      return std::make_unique<ZstdSource>(std::move(source));
  }
  return source;
}

}  // namespace shanty
