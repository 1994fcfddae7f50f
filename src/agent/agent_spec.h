#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace shanty {

enum class InjectKind { kKill, kStop, kSlow, kExit, kOom, kNetcut };

// One fault to cause on purpose: "kill:rank=1,step=60".
struct Inject {
  InjectKind kind = InjectKind::kKill;
  int rank = -1;            // -1 = not by rank (netcut)
  int node_rank = -1;       // netcut only
  uint64_t step = 0;        // after this step has ended
  uint64_t generation = 1;  // only in this generation
  int exit_code = 1;        // exit
  double factor = 2;        // slow: how many times longer everything takes
  double seconds = 5;       // netcut
};

// What an agent needs to know to do its work. Handed over through an inherited descriptor, since
// it holds the token.
struct AgentSpec {
  std::string run_dir;
  std::string run_id;
  int wanted_node_rank = -1;
  int slots = 1;
  int nodes_here = 1;  // nodes played on this machine; their ranks share its cores
  std::string coordinator_host;
  uint16_t coordinator_port = 0;
  bool tls = false;
  std::string token;
  std::string address;  // where other nodes reach this one, "" = as the coordinator sees it
  int parent_pid = 0;   // leave when it dies, 0 = nobody to watch

  std::vector<std::string> command;  // what to exec; "${local_rank}" is replaced in arguments
  std::string working_dir;
  std::vector<std::string> env;  // "NAME=value" in addition to the agent's own
  std::string python_dir;        // holds shanty/ and shanty_boot/, "" = no hooks
  std::string elastic_run_id;    // TORCHELASTIC_RUN_ID
  std::string role = "default";
  int elastic_max_restarts = 0;  // TORCHELASTIC_MAX_RESTARTS, for the workers to read
  uint64_t total_steps = 0;      // 0 = unknown
  // Local ranks whose output nobody watches: they write their logs themselves.
  std::vector<int> direct_log_ranks;

  double grace_s = 15;
  double restart_grace_s = 5;
  double orphan_limit_s = 60;
  double first_contact_limit_s = 1800;
  std::vector<int> stop_signals = {SIGTERM};  // end this node, and reach its workers so
  std::vector<Inject> injects;
};

// "kill:rank=1,step=60"; kinds kill stop slow exit oom netcut; keys rank, step, generation, and
// code (exit), factor (slow), node and seconds (netcut). Errors name the part that is wrong.
Result<Inject> parse_inject(std::string_view text);

std::string encode_agent_spec(const AgentSpec& spec);
Result<AgentSpec> decode_agent_spec(std::string_view text);

// Writes `content` into a new memory file that children can inherit and read from its start.
// Returns the descriptor number; it stays open until the process ends.
Result<int> make_spec_descriptor(const std::string& content);
// Reads such a descriptor whole, whatever its offset, and closes it.
Result<std::string> read_spec_descriptor(int fd);

}  // namespace shanty
