#pragma once

#include <string>

namespace shanty {

struct WorkerVersions {
  std::string python_version;  // "" = not known (yet)
  std::string torch_version;
};

// What this machine is, as one JSON object: host, kernel, cpus, memory_bytes, shm_bytes,
// gpu_driver, shanty, and the versions given. Keys whose value is not known are left out.
std::string host_facts_json(const WorkerVersions& versions);

}  // namespace shanty
