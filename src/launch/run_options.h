#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shanty {

// What was said on the command line of `shanty run`, before anything is looked up or decided.
// An empty string or optional means "not said".
struct RunOptions {
  std::string target;             // the job file, script, module or program
  std::vector<std::string> args;  // what follows it

  // torchrun's options.
  std::string nnodes;          // "2", "2:2"
  std::string nproc_per_node;  // "8", "auto", "cpu", "gpu"
  std::optional<int> node_rank;
  std::string master_addr;
  std::optional<int> master_port;
  std::string rdzv_backend;
  std::string rdzv_endpoint;
  std::string rdzv_id;
  std::string rdzv_conf;
  std::optional<int> max_restarts;
  bool standalone = false;
  bool module = false;
  bool no_python = false;
  std::string role = "default";
  std::string local_addr;
  std::string log_dir;
  std::string redirects;  // -r
  std::string tee;        // -t
  std::string local_ranks_filter;
  std::string signals_to_handle;
  std::optional<int> shutdown_timeout;

  // shanty's own.
  bool replaceable = false;  // see RunConfig
  bool log_ranks = false;    // see RunConfig
  std::string run_dir;
  std::string name;
  std::string python;
  std::vector<std::string> injects;
  bool json = false;
  bool quiet = false;
  bool one_log = false;  // all nodes print into one file: the first one shows the run
  bool hooks = true;
};

}  // namespace shanty
