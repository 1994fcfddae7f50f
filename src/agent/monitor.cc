#include "agent/monitor.h"

#include <fmt/format.h>

#include "agent/host_facts.h"

namespace shanty {

void Monitor::begin(const WorkerSet& workers) {
  watched_.clear();
  watched_.resize(static_cast<size_t>(workers.world().local_size));
}

std::vector<Event> Monitor::drain(WorkerSet& workers) {
  std::vector<Event> events;
  for (Worker& worker : workers.workers()) {
    if (!worker.ring) continue;
    Watched& watched = watched_[static_cast<size_t>(worker.local_rank)];
    drain_one(worker, watched, workers.world().generation, events);
    look_at_status(worker, watched, workers.world().generation, events);
  }
  return events;
}

void Monitor::drain_one(Worker& worker, Watched& watched, uint64_t generation,
                        std::vector<Event>& events) {
  std::vector<StepRecord> records;
  worker.ring->drain(records);
  if (records.empty()) return;
  const bool first = !watched.stats.has_step();
  watched.stats.add(records);
  if (first && worker.rank == 0) {
    events.push_back({.kind = std::string(event_kind::kFirstStep),
                      .generation = generation,
                      .rank = worker.rank,
                      .text = fmt::format("first step of generation {}", generation)});
  }
  if (watched.broken) return;
  Status status;
  if (!watched.writer) {
    auto opened = StepsWriter::open(run_.steps(generation, worker.rank),
                                    {.rank = worker.rank,
                                     .generation = generation,
                                     .start_unix_ns = system_clock().unix_time_ns()});
    if (opened.ok()) {
      watched.writer.emplace(std::move(*opened));
    } else {
      status = opened.error();
    }
  }
  if (watched.writer) status = watched.writer->append(records);
  if (status.ok()) return;
  watched.broken = true;
  events.push_back({.kind = std::string(event_kind::kWarning),
                    .generation = generation,
                    .rank = worker.rank,
                    .text = status.error().message + "; this rank's steps are not recorded"});
}

void Monitor::look_at_status(Worker& worker, Watched& watched, uint64_t generation,
                             std::vector<Event>& events) {
  const RingStatus status = worker.ring->status();
  if (!status.off_reason.empty() && !watched.told_off) {
    watched.told_off = true;
    events.push_back({.kind = std::string(event_kind::kHooksOff),
                      .generation = generation,
                      .rank = worker.rank,
                      .text = "the step hooks went off: " + status.off_reason});
  }
  if (status.checkpoints_saved > watched.checkpoints) {
    watched.checkpoints = status.checkpoints_saved;
    events.push_back(
        {.unix_ns = status.checkpoint_unix_ns,
         .kind = std::string(event_kind::kCheckpointSaved),
         .generation = generation,
         .rank = worker.rank,
         .text = fmt::format("checkpoint written after step {}", status.checkpoint_step),
         .extra_json = fmt::format("{{\"step\":{},\"count\":{}}}", status.checkpoint_step,
                                   status.checkpoints_saved)});
  }
}

std::vector<RankTelemetry> Monitor::telemetry(WorkerSet& workers) {
  const TimePoint now = system_clock().now();
  const int64_t now_unix_ns = system_clock().unix_time_ns();
  std::vector<RankTelemetry> out;
  for (Worker& worker : workers.workers()) {
    Watched& watched = watched_[static_cast<size_t>(worker.local_rank)];
    RankTelemetry telemetry{.rank = worker.rank,
                            .node_rank = workers.world().node_rank,
                            .local_rank = worker.local_rank,
                            .pid = worker.pid,
                            .generation = workers.world().generation,
                            .alive = worker.alive};
    watched.stats.fill(telemetry, now_unix_ns);
    if (worker.ring) {
      fill_from_ring(worker.ring->status(), now, now_unix_ns, telemetry);
      telemetry.missed_records = worker.ring->missed_records();
    }
    if (worker.alive) {
      if (!watched.sampler) watched.sampler.emplace(worker.pid);
      const ProcessTreeSample sample = watched.sampler->sample(now);
      telemetry.rss_bytes = sample.rss_bytes;
      telemetry.cpu_cores = sample.cpu_cores;
      telemetry.processes = sample.processes;
    }
    out.push_back(std::move(telemetry));
  }
  return out;
}

std::optional<uint64_t> Monitor::last_step(int local_rank) const {
  const auto index = static_cast<size_t>(local_rank);
  if (index >= watched_.size() || !watched_[index].stats.has_step()) return std::nullopt;
  return watched_[index].stats.last_step();
}

std::string Monitor::phase(WorkerSet& workers, int local_rank) const {
  for (const Worker& worker : workers.workers()) {
    if (worker.local_rank != local_rank || !worker.ring) continue;
    const RingStatus status = worker.ring->status();
    if (status.claim_pid != 0) return std::string(phase_name(status.phase));
  }
  return "";
}

std::string Monitor::take_facts(WorkerSet& workers) {
  for (const Worker& worker : workers.workers()) {
    if (!worker.ring) continue;
    const RingStatus status = worker.ring->status();
    if (status.python_version.empty()) continue;
    std::string facts = host_facts_json(
        {.python_version = status.python_version, .torch_version = status.torch_version});
    if (facts == told_facts_) return "";
    told_facts_ = facts;
    return facts;
  }
  if (!told_facts_.empty()) return "";
  told_facts_ = host_facts_json({});
  return told_facts_;
}

}  // namespace shanty
