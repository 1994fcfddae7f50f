#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace shanty {

struct ProcessTreeSample {
  uint64_t rss_bytes = 0;
  double cpu_cores = 0;  // since the sample before; 0 in the first
  int processes = 0;     // 0 = the root process is gone
};

// Memory and CPU of one process and its descendants, from /proc, cheap enough for once a second:
// every thread's children are looked at in every kFullScanEvery-th sample only, those of main
// threads in each.
class ProcessSampler {
 public:
  static constexpr int kFullScanEvery = 10;
  static constexpr size_t kMaxProcesses = 1024;

  explicit ProcessSampler(int pid, std::string proc_root = "/proc")
      : pid_(pid), proc_root_(std::move(proc_root)) {}
  ProcessTreeSample sample(TimePoint now);
  // The processes of the last sample, the root first.
  const std::vector<int>& pids() const { return pids_; }

 private:
  void find_processes(bool full_scan);
  void add_children(int pid, bool full_scan, std::vector<int>& found) const;

  int pid_;
  std::string proc_root_;
  std::vector<int> pids_;
  std::map<int, uint64_t> cpu_ticks_;  // of the last sample
  TimePoint last_;
  int samples_ = 0;
};

}  // namespace shanty
