#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "os/process.h"

namespace shanty {

struct CaptureLimits {
  size_t output_bytes = size_t{1} << 20;
  Duration time = std::chrono::seconds(60);
};

struct Captured {
  std::string output;  // of its stdout
  int exit_code = 0;
  int signal = 0;  // 0: it exited
};

// Runs a program to its end; its stderr is the caller's unless `options` says otherwise. One that
// takes too long or says too much is killed, which is an error, as is one that cannot be started.
Result<Captured> run_captured(SpawnOptions options, const CaptureLimits& limits = {});

}  // namespace shanty
