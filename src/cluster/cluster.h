#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shanty {

// What one node has, as far as it can be read. Empty: not known.
struct Cluster {
  std::string hostname;
  std::optional<uint64_t> cpus;  // that this process may use
  std::string cpus_from;         // the file that says so
  std::optional<uint64_t> memory_bytes;
  std::string memory_from;
  std::optional<uint64_t> shm_bytes;  // size of /dev/shm
  uint64_t gpus = 0;
  std::string gpu_model;
  std::optional<double> link_bytes_per_s;  // of the fastest network interface that is up
  std::string link_name;
};

// Reads this machine: /proc, /sys, /dev and the limits of the control groups this process is in.
// `root` stands in for "/" in tests. Never fails: what cannot be read stays empty.
Cluster read_cluster(const std::string& root = "");

}  // namespace shanty
