#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "agent/agent_spec.h"
#include "base/result.h"
#include "job/job.h"
#include "launch/run_options.h"
#include "net/address.h"
#include "net/token.h"

namespace shanty {

// Of one rank.
struct Streams {
  bool out = true;
  bool err = true;
  bool any() const { return out || err; }
};

// Everything `shanty run` has decided before it starts a process.
struct RunConfig {
  Job job;
  std::string job_file;              // "" = started by flags
  std::vector<std::string> command;  // a worker's argv
  int nodes = 1;
  int slots = 1;
  std::vector<int> local_nodes;  // node ranks started here; -1 = any
  bool several_machines = false;
  net::HostPort endpoint;    // of the coordinator, when several_machines
  bool may_host = true;      // the endpoint is on this machine
  std::string master_addr;   // "" = the node with rank 0 decides
  uint16_t master_port = 0;  // 0 = a free one

  int max_restarts = 10;
  double restart_window_s = 3600;
  bool restart_on_exit = true;
  int elastic_max_restarts = 0;
  double join_limit_s = 1800;
  double grace_s = 15;

  std::string elastic_run_id;
  std::string role = "default";
  std::string local_addr;
  std::string signals_to_handle;  // "" = not said
  std::vector<int> stop_signals;  // that stop the job, and are handed to the workers
  std::vector<Inject> injects;

  // One node of a job whose dead nodes somebody replaces, as Kubernetes does: a stop signal ends
  // this node and leaves the job to the others, and a node without a coordinator waits for it as
  // long as for a missing node.
  bool replaceable = false;
  // What live.json says goes into the output too, as lines for `shanty top --on`: of a pod, others
  // see no more than its log.
  bool log_ranks = false;

  std::string run_dir;                // "" = below log_dir
  std::string log_dir;                // "" = the state directory
  std::vector<Streams> shown;         // by local rank: what of it goes to the terminal
  std::vector<int> direct_log_ranks;  // local ranks of which both streams are only in files
  bool json = false;
  bool quiet = false;
  bool hooks = true;
};

// Where and why a command line or job file cannot be run.
struct ConfigError {
  std::string message;
  int exit_code = 2;  // 2 usage, 3 environment
};

// Reads the job file if there is one, checks everything, resolves names. Prints a job file's
// diagnostics to stderr.
std::variant<RunConfig, ConfigError> make_run_config(const RunOptions& options);

// "NAME=value" of what the job file sets for its workers: its env, and what shanty.Checkpointer
// takes where the script says nothing else (docs/checkpoints.md).
std::vector<std::string> job_environment(const Job& job);

// What names the job's token file, for a job on several machines.
net::TokenQuery token_query(const RunConfig& config);

// The interpreter: `wanted`, else $PYTHON_EXEC, else $VIRTUAL_ENV/bin/python, else python3 or
// python in PATH. Fails when there is none.
Result<std::string> find_python(const std::string& wanted);

}  // namespace shanty
