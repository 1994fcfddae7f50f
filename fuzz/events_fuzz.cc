#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/hash.h"
#include "run/events.h"

// A line that was read can be written and read again; with a right checksum any content is met.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  shanty::decode_event(bytes);
  const std::string signed_line =
      std::string(bytes) + fmt::format(",\"crc\":\"{:08x}\"}}", shanty::crc32c(bytes));
  const auto event = shanty::decode_event(signed_line);
  if (!event) return 0;
  const auto again = shanty::encode_event(*event);
  if (again && !shanty::decode_event(*again)) std::abort();
  return 0;
}
