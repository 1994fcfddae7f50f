#include <algorithm>
#include <csignal>
#include <utility>

#include "gang/sim/simulation.h"

namespace shanty::gang::sim {
namespace {

constexpr int64_t kMs = 1'000'000;
// exit codes of planned ends that are decided when they are due
constexpr int kFinishes = 0;
constexpr const char* kPeerError = "RuntimeError: Connection reset by peer";

}  // namespace

void Simulation::push_end(int host, size_t local_rank, int64_t after_ns, WorkerExit exit) {
  const Host& h = hosts_[static_cast<size_t>(host)];
  exit.local_rank = static_cast<int>(local_rank);
  push({.at_ns = now_ns_ + after_ns,
        .what = What::kWorkerEnds,
        .host = host,
        .life = h.life,
        .generation = h.running,
        .payload = exits_.put(std::move(exit))});
}

void Simulation::start_workers(int index, const World& world) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (tracing()) trace(host.name + " starts generation " + std::to_string(world.generation));
  check_start(index, world);
  if (!result_.violation.empty()) return;
  host.running = world.generation;
  host.alive.assign(static_cast<size_t>(world.local_size), true);
  host.signalled = false;
  host.strays = rng_.chance(0.05);
  reserve_port(index);
  if (host.start_will_fail) {
    host.start_will_fail = false;
    disturb("workers cannot start");
    host.alive.assign(host.alive.size(), false);
    truth_.worlds[static_cast<size_t>(host.world)].failed = true;
    return push({.at_ns = now_ns_ + kMs,
                 .what = What::kStartFails,
                 .host = index,
                 .life = host.life,
                 .generation = host.running});
  }
  const auto longer =
      static_cast<int64_t>(rng_.below(static_cast<uint64_t>(config_.work_spread_ns)));
  for (size_t i = 0; i < host.alive.size(); ++i) {
    const int64_t jitter = static_cast<int64_t>(rng_.below(50)) * kMs;
    push_end(index, i, config_.work_ns + longer + jitter, {.exit_code = kFinishes});
  }
  const auto& fault = config_.program_fault;
  if (!fault || fault->rank < world.first_rank ||
      fault->rank >= world.first_rank + world.local_size) {
    return;
  }
  push_end(index, static_cast<size_t>(fault->rank - world.first_rank), fault->after_ns,
           {.exit_code = 1, .step = fault->step, .error = "ValueError: always at this step"});
}

// A planned end is due. A rank can finish only when all ranks of a whole generation can.
void Simulation::worker_event(const Event& e) {
  Host& host = hosts_[static_cast<size_t>(e.host)];
  WorkerExit exit = exits_.take(e.payload);
  const auto local = static_cast<size_t>(exit.local_rank);
  if (host.life != e.life || host.running != e.generation || !host.alive[local]) return;
  const bool finishes = !exit.failed() && exit.signal == 0 && !host.signalled;
  const WorldTruth& truth = truth_.worlds[static_cast<size_t>(host.world)];
  if (finishes && truth.failed) return;  // hangs in a collective
  if (finishes && !truth.started()) return push_end(e.host, local, 500 * kMs, exit);
  end_worker(e.host, local, std::move(exit));
}

void Simulation::end_worker(int index, size_t local, WorkerExit exit) {
  Host& host = hosts_[static_cast<size_t>(index)];
  WorldTruth& truth = truth_.worlds[static_cast<size_t>(host.world)];
  const int rank = host.agent.world.first_rank + static_cast<int>(local);
  host.alive[local] = false;
  exit.exited_unix_ns = host.clock.at(now_ns_).unix_ns;
  if (!exit.error.empty()) exit.error_unix_ns = exit.exited_unix_ns - 20 * kMs;
  if (tracing()) {
    trace(host.name + " rank " + std::to_string(rank) + " ends: signal " +
          std::to_string(exit.signal) + " code " + std::to_string(exit.exit_code) + " " +
          exit.error);
  }
  RankFate& fate = truth.fate[static_cast<size_t>(rank)];
  if (host.signalled) {
    fate = RankFate::kStopped;
  } else if (exit.failed()) {
    fate = RankFate::kFailed;
    if (!truth.failed) {
      truth.failed = true;
      truth.first_failed_rank = rank;
      spread_failure(host.world);
    }
    if (exit.error != kPeerError) ++truth.disturbances;
    truth_.calm_since_ns = now_ns_;
  } else {
    fate = RankFate::kFinished;
  }
  push({.at_ns = now_ns_ + 100'000 + static_cast<int64_t>(rng_.below(kMs)),
        .what = What::kExitSeen,
        .host = index,
        .life = host.life,
        .generation = host.running,
        .payload = exits_.put(std::move(exit))});
  if (std::none_of(host.alive.begin(), host.alive.end(), [](bool alive) { return alive; })) {
    schedule_gone(index);
  }
}

// Peers of a dead rank find out by their sockets, or hang.
void Simulation::spread_failure(int world) {
  const WorldTruth& truth = truth_.worlds[static_cast<size_t>(world)];
  for (size_t node = 0; node < truth.host_of_node.size(); ++node) {
    const int index = truth.host_of_node[node];
    if (index < 0) continue;
    const Host& host = hosts_[static_cast<size_t>(index)];
    if (host.running == 0 || host.world != world || host.life != truth.life_of_node[node]) continue;
    for (size_t i = 0; i < host.alive.size(); ++i) {
      if (!host.alive[i] || !rng_.chance(0.5)) continue;
      push_end(index, i, static_cast<int64_t>(10 + rng_.below(500)) * kMs,
               {.exit_code = 1, .error = kPeerError});
    }
  }
}

void Simulation::schedule_gone(int index) {
  const Host& host = hosts_[static_cast<size_t>(index)];
  if (host.strays || host.sticks) return;
  push({.at_ns = now_ns_ + 2 * kMs,
        .what = What::kAllGone,
        .host = index,
        .life = host.life,
        .generation = host.running});
}

void Simulation::signal_workers(int index, bool kill) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (tracing()) trace(host.name + (kill ? " kills" : " stops") + " its workers");
  host.signalled = true;
  if (host.sticks) return;
  bool any = false;
  for (size_t i = 0; i < host.alive.size(); ++i) {
    if (!host.alive[i]) continue;
    any = true;
    if (kill) {
      push_end(index, i, static_cast<int64_t>(1 + rng_.below(20)) * kMs, {.signal = SIGKILL});
    } else if (rng_.chance(0.8)) {
      const bool polite = rng_.chance(0.3);
      push_end(index, i, static_cast<int64_t>(rng_.below(300)) * kMs,
               polite ? WorkerExit{} : WorkerExit{.signal = SIGTERM});
    }
  }
  if (kill) host.strays = false;
  if (kill && !any && host.running != 0) schedule_gone(index);
}

// Everything on the host is gone, from one moment to the next.
void Simulation::clear_host(int index) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (host.running != 0) {
    WorldTruth& truth = truth_.worlds[static_cast<size_t>(host.world)];
    if (std::any_of(host.alive.begin(), host.alive.end(), [](bool alive) { return alive; })) {
      if (!truth.failed) {
        truth.failed = true;
        spread_failure(host.world);
      }
    }
  }
  host.alive.assign(host.alive.size(), false);
  host.running = 0;
}

}  // namespace shanty::gang::sim
