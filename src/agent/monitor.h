#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/worker_set.h"
#include "base/clock.h"
#include "run/events.h"
#include "telemetry/process_sampler.h"
#include "telemetry/rank_telemetry.h"
#include "telemetry/step_stats.h"
#include "telemetry/steps_file.h"

namespace shanty {

// Watches the workers of one generation from outside: moves their step records from the rings into
// the run directory and keeps what `top` shows. Costs nothing to the workers.
class Monitor {
 public:
  explicit Monitor(const RunDir& run) : run_(run) {}

  void begin(const WorkerSet& workers);
  // Reads the rings. Returns what happened since the last call, for the run directory.
  std::vector<Event> drain(WorkerSet& workers);
  // One entry per worker of the generation. Samples memory and CPU of those alive.
  std::vector<RankTelemetry> telemetry(WorkerSet& workers);

  // The last step that a worker completed, nullopt before its first.
  std::optional<uint64_t> last_step(int local_rank) const;
  // What the worker says it is doing, "" when unknown.
  std::string phase(WorkerSet& workers, int local_rank) const;
  // Versions that the workers told, as a JSON object; "" while nothing new is known.
  std::string take_facts(WorkerSet& workers);

 private:
  struct Watched {
    std::optional<StepsWriter> writer;
    StepStats stats;
    std::optional<ProcessSampler> sampler;
    uint64_t checkpoints = 0;
    bool told_off = false;
    bool broken = false;  // its steps file cannot be written
  };
  void drain_one(Worker& worker, Watched& watched, uint64_t generation, std::vector<Event>& events);
  void look_at_status(Worker& worker, Watched& watched, uint64_t generation,
                      std::vector<Event>& events);

  const RunDir& run_;
  std::vector<Watched> watched_;  // by local rank
  std::string told_facts_;
};

}  // namespace shanty
