#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shanty {

// A limit and the file it was read from.
struct Limit {
  double value = 0;
  std::string from;
};

struct CgroupLimits {
  std::optional<Limit> cpus;  // CPU time per time, so 1.5 is possible
  std::optional<Limit> memory_bytes;
};

// The tightest limits among the control groups this process is in and those above, for cgroup v2
// and v1. `root` stands in for "/".
CgroupLimits read_cgroup_limits(const std::string& root);

// Bytes that this process may still make present without something being killed for it: what the
// kernel says is available, and what each control group leaves of its limit when its file cache is
// given up. The tightest of them; nullopt where nothing is known.
std::optional<Limit> read_memory_room(const std::string& root);

}  // namespace shanty
