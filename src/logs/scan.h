#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "logs/byte_source.h"
#include "logs/log_book.h"

namespace shanty {

// What is kept of the lines that are recognised, so that memory stays flat whatever the length.
inline constexpr size_t kKeepFirst = 24;  // of one event and origin
inline constexpr size_t kKeepLast = 8;
inline constexpr size_t kKeepSeriesFirst = 300;
inline constexpr size_t kKeepSeriesLast = 100;
inline constexpr size_t kMaxRecords = 400'000;       // of all files
inline constexpr size_t kMaxSeriesPerBlock = 1'500;  // lines of progress looked at in one block
inline constexpr size_t kMaxRecordText = 600;

struct ScanOptions {
  std::string name;            // of the file, as evidence names it
  int64_t around_unix_ns = 0;  // when the file was written: gives times their year
  // When the byte at an offset was written, 0 where unknown; may be empty. For logs whose lines
  // have no times but whose writer kept them.
  std::function<int64_t(uint64_t offset)> time_at;
};

// Reads logs into a LogBook, one after the other. One thread.
class LogScanner {
 public:
  LogScanner();
  ~LogScanner();

  // Adds the file's records. What could be read counts, also when this fails in the middle: then a
  // note says so.
  void scan(ByteSource& source, const ScanOptions& options);
  // The book in order, with ranks and generations filled in where other lines tell them.
  LogBook finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Of all records of a book: ranks by process and file, restarts, order. finish() does it.
void settle(LogBook& book);

}  // namespace shanty
