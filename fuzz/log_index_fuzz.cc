#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <sys/mman.h>

#include "base/hash.h"
#include "os/fd.h"
#include "os/files.h"
#include "run/rank_log.h"

namespace {

constexpr std::string_view kLog = "line one\nline two\nand a rest without its newline";

std::string path_of(const shanty::Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

shanty::Fd file_with(std::string_view bytes) {
  shanty::Fd fd(::memfd_create("fuzz", MFD_CLOEXEC));
  if (!fd.valid() || !shanty::write_all(fd.get(), bytes).ok()) std::abort();
  return fd;
}

// Gives every record a right checksum, so that the fuzzer gets past it.
std::string with_checksums(std::string_view bytes) {
  char header[shanty::kLogIndexHeaderBytes];
  shanty::encode_log_index_header(header);
  std::string out(header, sizeof(header));
  while (bytes.size() >= 20) {
    const std::string_view record = bytes.substr(0, 20);
    const uint32_t crc = shanty::crc32c(record);
    out += record;
    out.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
    bytes.remove_prefix(20);
  }
  return out + std::string(bytes);
}

void read_all(std::string_view index_bytes) {
  const shanty::Fd log = file_with(kLog);
  const shanty::Fd index = file_with(index_bytes);
  shanty::RankLogReader reader(path_of(log), path_of(index));
  std::string all;
  for (auto chunks = reader.read(true); !chunks.empty(); chunks = reader.read(true)) {
    for (const auto& chunk : chunks) all += chunk.bytes;
  }
  if (all != kLog) std::abort();
  shanty::RankLogReader tail(path_of(log), path_of(index));
  tail.skip_to_last_lines(2);
  if (tail.behind_bytes() != kLog.size() - kLog.find("line two")) std::abort();
}

}  // namespace

// Whatever an index holds, all bytes of the log come out, once and in order.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_all(bytes);
  read_all(with_checksums(bytes));
  return 0;
}
