#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/messages.h"

// Any bytes are an error or a message; a message that is encoded and decoded again stays the same.

namespace {

template <typename Decode>
void check_round_trip(std::string_view bytes, Decode decode) {
  const auto first = decode(bytes);
  if (!first.ok()) return;
  const std::string frame = shanty::wire::encode(*first);
  const auto second = decode(frame);
  CHECK(second.ok());
  CHECK(shanty::wire::encode(*second) == frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_round_trip(bytes, shanty::wire::decode_agent_message);
  check_round_trip(bytes, shanty::wire::decode_coordinator_message);
  return 0;
}
