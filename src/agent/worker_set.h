#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "agent/agent_spec.h"
#include "agent/log_pump.h"
#include "base/result.h"
#include "gang/messages.h"
#include "os/process.h"
#include "run/run_dir.h"
#include "telemetry/ring_reader.h"

namespace shanty {

// One worker process of the generation that this node runs.
struct Worker {
  int local_rank = 0;
  int rank = 0;
  pid_t pid = 0;
  bool alive = false;
  std::optional<RingReader> ring;
};

// The worker processes of one node: starts a generation, signals it, and knows when no process of
// it is left. Each worker is the leader of its own session; descendants that outlive it are
// adopted by this process (a subreaper) and count as well. One thread, which must be the one that
// lives as long as the process, since the workers die with it.
class WorkerSet {
 public:
  // `checkpoint_socket` goes into SHANTY_CKPT_SOCKET, "" = none.
  WorkerSet(const AgentSpec& spec, const RunDir& run, LogPump& pump,
            std::string checkpoint_socket = "")
      : spec_(spec), run_(run), pump_(pump), checkpoint_socket_(std::move(checkpoint_socket)) {}

  // Starts all workers of `world`. On failure the ones already started are left to kill().
  Status start(const gang::World& world);

  // To every living worker's process group.
  void signal(int number);
  // SIGKILL to every worker and all their descendants.
  void kill();
  // SIGKILL to the children that workers left behind. Returns how many there were.
  size_t kill_orphans();

  // To be called on SIGCHLD: collects the dead. Yields the workers among them.
  struct Ended {
    size_t index = 0;  // in workers()
    ReapedChild child;
  };
  std::vector<Ended> reap();

  // A child that is neither a worker nor left behind by one; 0 = none. Becomes 0 when it is reaped.
  void set_bystander(pid_t pid) { bystander_ = pid; }
  pid_t bystander() const { return bystander_; }

  // No worker and no adopted descendant is left.
  bool all_gone() const;
  bool any_worker_alive() const;
  const gang::World& world() const { return world_; }
  std::vector<Worker>& workers() { return workers_; }

 private:
  Status start_one(int local_rank);
  bool writes_logs_itself(int local_rank) const;

  const AgentSpec& spec_;
  const RunDir& run_;
  LogPump& pump_;
  gang::World world_;
  std::vector<Worker> workers_;
  pid_t bystander_ = 0;
  std::string checkpoint_socket_;
};

}  // namespace shanty
