#include <cstddef>
#include <cstdint>
#include <string_view>

#include "doctor/input.h"
#include "doctor/readers/readers.h"
#include "logs/stamp.h"

// Every reader of what is not a log takes any text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  shanty::ClusterFacts facts;
  for (const auto reader :
       {shanty::read_kubernetes, shanty::read_describe, shanty::read_nvidia_smi,
        shanty::read_topology_matrix, shanty::read_nccl_topology, shanty::read_nccl_tests,
        shanty::read_iperf, shanty::read_ras_json, shanty::read_py_spy}) {
    reader(text, "node-1/rank2.txt", facts);
  }
  shanty::sniff_input("a", text);
  shanty::parse_stamp(text, 1'764'417'600'000'000'000);
  return 0;
}
