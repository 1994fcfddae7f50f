#pragma once

#include <string>
#include <vector>

#include "agent/agent_spec.h"
#include "gang/messages.h"

namespace shanty {

// The command and the environment of one worker: torchrun's contract (RANK, LOCAL_RANK,
// WORLD_SIZE, MASTER_*, TORCHELASTIC_*, OMP_NUM_THREADS) plus what the Python side reads
// (SHANTY_*, PYTHONPATH). Pure.
struct WorkerLaunch {
  std::vector<std::string> argv;
  std::vector<std::string> env;
};

struct WorkerPlace {
  int local_rank = 0;
  int ring_fd = -1;
  std::string checkpoint_socket;   // SHANTY_CKPT_SOCKET
  std::string error_file;          // SHANTY_ERROR_FILE
  std::string elastic_error_file;  // TORCHELASTIC_ERROR_FILE
};

WorkerLaunch make_worker_launch(const AgentSpec& spec, const gang::World& world,
                                const WorkerPlace& place, std::vector<std::string> base_env);

}  // namespace shanty
