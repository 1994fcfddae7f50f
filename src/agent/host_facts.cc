#include "agent/host_facts.h"

#include <thread>

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "os/files.h"
#include "os/process.h"

namespace shanty {
namespace {

constexpr size_t kMaxProcFileBytes = 64 * 1024;

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  ...": the first line.
std::string gpu_driver() {
  const auto text = read_file("/proc/driver/nvidia/version", kMaxProcFileBytes);
  return text ? text->substr(0, text->find('\n')) : "";
}

uint64_t memory_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string host_facts_json(const WorkerVersions& versions) {
  nlohmann::json facts = {{"host", host_name()},
                          {"cpus", std::thread::hardware_concurrency()},
                          {"memory_bytes", memory_bytes()},
                          {"shanty", SHANTY_VERSION}};
  utsname names{};
  if (::uname(&names) == 0) facts["kernel"] = names.release;
  struct statvfs shm{};
  if (::statvfs("/dev/shm", &shm) == 0) facts["shm_bytes"] = shm.f_blocks * shm.f_frsize;
  const std::string driver = gpu_driver();
  if (!driver.empty()) facts["gpu_driver"] = driver;
  if (!versions.python_version.empty()) facts["python"] = versions.python_version;
  if (!versions.torch_version.empty()) facts["torch"] = versions.torch_version;
  return facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace shanty
