#include "logs/block_reader.h"

#include <algorithm>
#include <cstring>

namespace shanty {
namespace {

constexpr size_t kReadBytes = 256 * 1024;

// Appends the code point; broken surrogates become U+FFFD.
void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

// Takes whole characters from the front of `raw`.
std::string utf16_to_utf8(std::string& raw, bool little_endian, bool at_end) {
  std::string out;
  size_t i = 0;
  const auto unit = [&](size_t at) {
    const auto first = static_cast<unsigned char>(raw[at]);
    const auto second = static_cast<unsigned char>(raw[at + 1]);
    return static_cast<uint32_t>(little_endian ? first | (second << 8) : second | (first << 8));
  };
  while (i + 2 <= raw.size()) {
    const uint32_t c = unit(i);
    if (c >= 0xd800 && c < 0xdc00) {
      if (i + 4 > raw.size() && !at_end) break;
      const uint32_t low = i + 4 <= raw.size() ? unit(i + 2) : 0;
      if (low >= 0xdc00 && low < 0xe000) {
        append_utf8(out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
        i += 4;
        continue;
      }
      append_utf8(out, 0xfffd);
    } else {
      append_utf8(out, c >= 0xdc00 && c < 0xe000 ? 0xfffd : c);
    }
    i += 2;
  }
  raw.erase(0, i);
  return out;
}

}  // namespace

BlockReader::BlockReader(ByteSource& source)
    : source_(source), buffer_(kBlockBytes + kMaxLineBytes + 2 * kReadBytes) {}

Result<std::optional<Block>> BlockReader::next() {
  while (true) {
    if (dropping_) {
      const char* found =
          static_cast<const char*>(std::memchr(buffer_.data() + begin_, '\n', end_ - begin_));
      const size_t upto = found ? static_cast<size_t>(found - buffer_.data()) : end_;
      offset_ += upto - begin_;
      begin_ = upto;
      dropping_ = !found && !ended_;
    }
    const size_t have = end_ - begin_;
    if (!dropping_ && have >= kBlockBytes) {
      const char* start = buffer_.data() + begin_;
      const char* found = static_cast<const char*>(::memrchr(start, '\n', have));
      if (found) return hand_out(static_cast<size_t>(found - start) + 1);
      ++cut_lines_;
      dropping_ = true;
      return hand_out(kMaxLineBytes);
    }
    if (ended_) {
      if (have == 0) return std::optional<Block>{};
      return hand_out(have);
    }
    TRY_STATUS(fill());
  }
}

std::optional<Block> BlockReader::hand_out(size_t size) {
  const Block block{.bytes = std::string_view(buffer_.data() + begin_, size), .offset = offset_};
  begin_ += size;
  offset_ += size;
  return block;
}

Status BlockReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (encoding_ == Encoding::kUtf16Le || encoding_ == Encoding::kUtf16Be) {
    const size_t had = raw_.size();
    raw_.resize(had + kReadBytes / 4);
    const size_t got = TRY(source_.read(raw_.data() + had, kReadBytes / 4));
    raw_.resize(had + got);
    ended_ = got == 0;
    const std::string text = utf16_to_utf8(raw_, encoding_ == Encoding::kUtf16Le, ended_);
    std::memcpy(buffer_.data() + end_, text.data(), text.size());
    end_ += text.size();
    return {};
  }
  const size_t got = TRY(source_.read(buffer_.data() + end_, kReadBytes));
  ended_ = got == 0;
  end_ += got;
  if (encoding_ == Encoding::kUnknown && (end_ >= 2 || ended_)) {
    const std::string_view head(buffer_.data(), end_);
    encoding_ = head.starts_with("\xff\xfe")   ? Encoding::kUtf16Le
                : head.starts_with("\xfe\xff") ? Encoding::kUtf16Be
                                               : Encoding::kBytes;
    if (encoding_ != Encoding::kBytes) {
      raw_.assign(head.substr(2));
      end_ = 0;
      ended_ = false;
    }
  }
  return {};
}

uint64_t count_newlines(std::string_view text) {
  // Sums in bytes, flushed before they overflow: a form that compilers turn into vectors.
  uint64_t count = 0;
  size_t i = 0;
  constexpr size_t kLanes = 32;
  while (i + kLanes * 255 <= text.size()) {
    unsigned char lanes[kLanes] = {};
    for (size_t round = 0; round < 255; ++round, i += kLanes) {
      for (size_t k = 0; k < kLanes; ++k) {
        lanes[k] = static_cast<unsigned char>(lanes[k] + (text[i + k] == '\n' ? 1 : 0));
      }
    }
    for (const unsigned char lane : lanes) count += lane;
  }
  // Eight bytes at a time: which of them are zero after the xor.
  constexpr uint64_t kOnes = 0x0101010101010101;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    word ^= kOnes * '\n';
    const uint64_t others = ((word & (kOnes * 0x7f)) + kOnes * 0x7f) | word;
    count += (((~others >> 7) & kOnes) * kOnes) >> 56;
  }
  for (; i < text.size(); ++i) count += text[i] == '\n' ? 1 : 0;
  return count;
}

}  // namespace shanty
