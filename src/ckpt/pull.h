#pragma once

#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "ckpt/arrival.h"

namespace shanty::ckpt {

// One run of bytes of another process.
struct Pull {
  uint64_t from = 0;  // an address there
  char* to = nullptr;
  uint64_t bytes = 0;
};

// Copies all of them out of process `pid`, by `threads` threads (process_vm_readv), of which all
// but the caller work in the background; what is to lie first is copied first, and `arrival`, where
// there is one, is told how far it got, but not when it ends. Errors: the process is gone, an
// address that is not mapped, a kernel that does not permit it.
Status pull_memory(pid_t pid, std::vector<Pull> pulls, int threads, Arrival* arrival = nullptr);

// One run of bytes for another process.
struct Push {
  const char* from = nullptr;
  uint64_t to = 0;  // an address there
  uint64_t bytes = 0;
};

// Copies all of them into process `pid` (process_vm_writev); errors as of pull_memory.
Status push_memory(pid_t pid, const std::vector<Push>& pushes);

// Whether this process may read and write that one's memory.
bool may_pull(pid_t pid);

}  // namespace shanty::ckpt
