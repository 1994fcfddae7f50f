#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "telemetry/node_sample.h"

// A sample that was read can be written and read again, and its shares are shares.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto sample = shanty::decode_node_sample(line);
  if (!sample) return 0;
  if (!(sample->cpu >= 0 && sample->cpu <= 1) || !(sample->net_bytes_per_s >= 0)) std::abort();
  if (!shanty::decode_node_sample(shanty::encode_node_sample(*sample))) std::abort();
  return 0;
}
