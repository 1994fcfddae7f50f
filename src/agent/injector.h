#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent_spec.h"
#include "agent/monitor.h"
#include "agent/worker_set.h"
#include "base/clock.h"

namespace shanty {

// Causes the faults that were asked for, each once, as soon as its rank has completed its step.
class Injector {
 public:
  explicit Injector(const std::vector<Inject>& injects);

  // Something may still have to be done: check() wants to be called every kEvery.
  static constexpr Duration kEvery = std::chrono::milliseconds(10);
  bool active() const;

  struct Done {
    std::string text;  // what was done, for the run directory
    int rank = -1;
    std::optional<double> netcut_s;  // the caller cuts the agent's connection that long
  };
  std::vector<Done> check(const Monitor& monitor, WorkerSet& workers, TimePoint now);

 private:
  struct Pending {
    Inject inject;
    bool fired = false;
  };
  struct Slowed {
    pid_t pid = 0;
    double factor = 2;
    bool stopped = false;
    TimePoint next_change;
  };
  bool due(const Inject& inject, const Monitor& monitor, const WorkerSet& workers) const;
  Done fire(const Inject& inject, WorkerSet& workers, TimePoint now);
  void pace(WorkerSet& workers, TimePoint now);

  std::vector<Pending> pending_;
  std::vector<Slowed> slowed_;
};

}  // namespace shanty
