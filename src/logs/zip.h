#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "logs/byte_source.h"

namespace shanty {

// A zip archive of files that people packed. What only uses the format (checkpoints of torch, .npz,
// wheels, office documents) is none.
bool is_zip(std::string_view head);

struct ZipVisitor {
  std::function<void(const std::string& name, ByteSource& content)> each;
  std::function<void(const std::string& name, const std::string& why)> left_out;
};

// Reads a zip archive as a stream, from one local header to the next: each byte is read once, so
// that entries that overlap or contain each other cannot multiply. Stored, deflated and zstd;
// zip64. What is encrypted or packed in another way is left out, with a word. Nothing is written
// anywhere.
inline constexpr uint64_t kMaxZipFiles = 1'000'000;
Status read_zip(PeekSource& archive, const ZipVisitor& visitor);

}  // namespace shanty
