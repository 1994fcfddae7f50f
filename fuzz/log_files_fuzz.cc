#include <cstddef>
#include <cstdint>
#include <string>

#include "logs/byte_source.h"
#include "logs/tar.h"
#include "logs/zip.h"

// What is compressed or an archive may be damaged anywhere: no crash, and an end.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLimit = 16u << 20;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const auto kind : {shanty::Compression::kGzip, shanty::Compression::kZstd}) {
    const auto source = shanty::decompress(kind, shanty::memory_source(bytes));
    shanty::discard(shanty::read_all(*source, kLimit), "any result is fine");
  }
  const auto archive = shanty::memory_source(bytes);
  const auto each = [](const std::string&, shanty::ByteSource& content) {
    shanty::discard(shanty::read_all(content, kLimit), "any result is fine");
  };
  shanty::discard(shanty::read_tar(*archive, each), "any result is fine");
  shanty::PeekSource zip(shanty::memory_source(bytes));
  const auto left_out = [](const std::string&, const std::string&) {};
  shanty::discard(shanty::read_zip(zip, {.each = each, .left_out = left_out}),
                  "any result is fine");
  return 0;
}
