#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "logs/scan.h"

// Any bytes are a log: lines, prefixes, structured lines, events. Lines are counted as they stand.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shanty::LogScanner scanner;
  const auto source = shanty::memory_source(std::string(reinterpret_cast<const char*>(data), size));
  scanner.scan(
      *source,
      {.name = "rank_1.log", .around_unix_ns = 1'764'417'600'000'000'000, .time_at = nullptr});
  const shanty::LogBook book = scanner.finish();
  for (const shanty::Record& record : book.records) {
    if (record.line == 0 || record.line > book.files[record.file].lines) std::abort();
  }
  return 0;
}
