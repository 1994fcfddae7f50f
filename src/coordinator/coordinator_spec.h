#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gang/messages.h"

namespace shanty {

// What a coordinator needs to know. Handed over through an inherited descriptor, since it holds
// the token.
struct CoordinatorSpec {
  std::string run_dir;
  std::string host;  // address to listen on, "" = all
  uint16_t port = 0;
  bool tls = false;
  std::string token;
  int parent_pid = 0;        // stop the job when it dies, 0 = nobody to watch
  bool replaceable = false;  // when it dies, vanish instead: a successor elsewhere goes on

  int node_count = 1;
  int max_restarts = 10;
  double restart_window_s = 3600;  // 0 = the whole job
  bool restart_on_exit = true;
  double join_limit_s = 1800;
  double stop_limit_s = 60;  // beyond the agents' grace
  double agent_grace_s = 15;
  std::string master_addr;                     // "" = the address of the node with rank 0
  uint16_t master_port = 0;                    // 0 = a free port of that node
  bool recovering = false;                     // an earlier coordinator of this run died
  std::string stop_reason;                     // it had been told to stop the job, "" = it had not
  int stop_signal = gang::kDefaultStopSignal;  // ... by this
  std::vector<int> stop_signals = {SIGTERM};   // that stop the job, and reach the workers so
};

std::string encode_coordinator_spec(const CoordinatorSpec& spec);
Result<CoordinatorSpec> decode_coordinator_spec(std::string_view text);

}  // namespace shanty
