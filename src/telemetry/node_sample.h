#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shanty {

// What a node was busy with, from one look at it to the next (docs/formats/node-samples.md). Shares
// are 0 to 1; what a kernel does not tell is 0.
struct NodeSample {
  int64_t unix_ns = 0;          // of the second look
  double cpu = 0;               // of all CPUs' time: any process ran
  double iowait = 0;            // idle, while a process waited for storage
  double steal = 0;             // the hypervisor ran something else
  double throttled = 0;         // of time: the quota of this control group stopped it
  double pressure_cpu = 0;      // of time: some process waited for a CPU (/proc/pressure)
  double pressure_memory = 0;   // for memory
  double pressure_io = 0;       // for storage
  double memory_available = 0;  // of all memory, at the second look
  double net_bytes_per_s = 0;   // in and out, all interfaces but loopback
};

// Looks at a node. `root` stands in for "/". Costs some hundred microseconds a look.
class NodeSampler {
 public:
  explicit NodeSampler(std::string root = "");
  // Since the call before; nullopt at the first, and where /proc/stat cannot be read.
  std::optional<NodeSample> sample(int64_t unix_ns);

 private:
  struct Counters {
    int64_t unix_ns = 0;
    double cpu_busy = 0;  // ticks
    double cpu_iowait = 0;
    double cpu_steal = 0;
    double cpu_all = 0;
    double throttled_us = 0;
    double pressure_us[3] = {};  // cpu, memory, io
    double net_bytes = 0;
  };
  std::optional<Counters> read_counters(int64_t unix_ns) const;
  double memory_available() const;

  std::string root_;
  std::string cpu_stat_;  // of this process's control group
  std::optional<Counters> last_;
};

// One line without its end.
std::string encode_node_sample(const NodeSample& sample);
// nullopt for a line that is torn or none.
std::optional<NodeSample> decode_node_sample(std::string_view line);

// The samples of a file, in order; of longer ones the newest kMaxNodeSamples.
inline constexpr size_t kMaxNodeSamples = 100'000;
std::vector<NodeSample> read_node_samples(const std::string& path);

}  // namespace shanty
