#pragma once

#include <memory>

#include "launch/run_config.h"
#include "run/run_dir.h"

namespace shanty {

// Starts the coordinator (where this machine hosts it) and the local agents, keeps them alive,
// hands signals on, and leaves no process behind.
struct SupervisorResult {
  int exit_code = 1;         // as the verb's
  bool hosted = false;       // this machine had the coordinator, so it has the job's whole account
  bool was_stopped = false;  // by a signal to this command
};

class Supervisor {
 public:
  Supervisor(const RunConfig& config, const RunDir& run, std::string token);
  ~Supervisor();
  // Blocks until the job is over for this machine.
  Result<SupervisorResult> run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shanty
