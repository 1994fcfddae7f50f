#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent_spec.h"
#include "agent/worker_set.h"
#include "base/clock.h"
#include "gang/messages.h"

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
  // The last step that a worker of this node completed, nullopt before its first.
  using LastStep = std::function<std::optional<uint64_t>(int local_rank)>;
  std::vector<Done> check(const gang::World& world, std::vector<Worker>& workers,
                          const LastStep& last_step, TimePoint now);

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
  Done fire(const Inject& inject, std::vector<Worker>& workers, TimePoint now);
  void pace(const std::vector<Worker>& workers, TimePoint now);

  std::vector<Pending> pending_;
  std::vector<Slowed> slowed_;
};

}  // namespace shanty
