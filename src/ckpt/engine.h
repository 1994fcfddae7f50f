#pragma once

#include <sys/types.h>

namespace shanty::ckpt {

struct EngineOptions {
  int listen_fd = -1;    // a listening Unix stream socket
  pid_t parent_pid = 0;  // the engine ends after it, once what is being saved is saved
};

// The process `shanty ckpt-engine`. Returns its exit code.
int run_engine(const EngineOptions& options);

}  // namespace shanty::ckpt
