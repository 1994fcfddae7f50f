#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/flight/flight.h"

// Two dumps cut out of the bytes: whatever they hold, it is read or refused, and judged.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t cut = bytes.size() * data[0] / 256;
  const std::vector<shanty::flight::FlightFile> files = {
      {"trace_rank_0", "", bytes.substr(0, cut) + ' '},
      {"trace_rank_1", "", bytes.substr(cut) + ' '},
      {"trace_rank_2.json", "", bytes + ' '},
  };
  shanty::flight::diagnose_flight(files, 1);
  return 0;
}
