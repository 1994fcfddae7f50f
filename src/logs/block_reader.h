#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "logs/byte_source.h"

namespace shanty {

// Whole lines of a text, the last one of a source perhaps without its newline.
struct Block {
  std::string_view bytes;  // valid until the next one is asked for
  uint64_t offset = 0;     // of its first byte in the source, after decoding
};

// Cuts a source into blocks of whole lines. UTF-16 with a byte order mark becomes UTF-8; other
// encodings pass as they are. Of a line longer than kMaxLineBytes the rest is passed over.
class BlockReader {
 public:
  static constexpr size_t kBlockBytes = 1024 * 1024;
  static constexpr size_t kMaxLineBytes = 512 * 1024;

  explicit BlockReader(ByteSource& source);
  // Nothing at the end.
  Result<std::optional<Block>> next();
  uint64_t cut_lines() const { return cut_lines_; }

 private:
  enum class Encoding { kUnknown, kBytes, kUtf16Le, kUtf16Be };

  Status fill();
  size_t decode_utf16(size_t begin, size_t end);
  std::optional<Block> hand_out(size_t size);

  ByteSource& source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what was not handed out yet
  size_t end_ = 0;
  uint64_t offset_ = 0;
  bool ended_ = false;
  bool dropping_ = false;  // the rest of a cut line
  uint64_t cut_lines_ = 0;
  Encoding encoding_ = Encoding::kUnknown;
  std::string raw_;  // UTF-16 that is not decoded yet
};

// How many '\n' there are.
uint64_t count_newlines(std::string_view text);

}  // namespace shanty
