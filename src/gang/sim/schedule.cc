#include "base/random.h"
#include "gang/sim/sim.h"

namespace shanty::gang::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1'000'000'000;

int64_t between(Rng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng.below(static_cast<uint64_t>(high - low)));
}

int draw_node_count(Rng& rng) {
  if (rng.chance(0.003)) return 64;
  if (rng.chance(0.15)) return 1;
  return static_cast<int>(2 + rng.below(rng.chance(0.5) ? 2 : 7));
}

std::vector<SimHost> draw_hosts(Rng& rng, int node_count) {
  const int spares = rng.chance(0.2) ? 1 + static_cast<int>(rng.below(2)) : 0;
  const uint64_t max_slots = rng.chance(0.7) ? 1 : 4;
  const double fixed = rng.chance(0.5) ? 1 : rng.chance(0.6) ? 0 : 0.5;
  std::vector<SimHost> hosts(static_cast<size_t>(node_count + spares));
  for (size_t i = 0; i < hosts.size(); ++i) {
    SimHost& host = hosts[i];
    host.slots = 1 + static_cast<int>(rng.below(max_slots));
    host.starts_at_ns = between(rng, 0, rng.chance(0.1) ? 8 * kS : 500 * kMs);
    if (!rng.chance(fixed)) continue;
    const bool is_spare = i >= static_cast<size_t>(node_count);
    host.wanted_node_rank = is_spare
                                ? static_cast<int>(rng.below(static_cast<uint64_t>(node_count)))
                                : static_cast<int>(i);
  }
  return hosts;
}

void draw_limits(Rng& rng, SimConfig& c) {
  c.coordinator.max_restarts = static_cast<int>(rng.below(5));
  c.coordinator.restart_window = rng.chance(0.5) ? seconds(0) : seconds(rng.chance(0.5) ? 3600 : 8);
  c.coordinator.restart_on_exit = rng.chance(0.8);
  c.coordinator.lease = seconds(3);
  c.coordinator.join_limit = seconds(between(rng, 12, 30));
  c.coordinator.stop_limit = seconds(6);
  c.agent.grace = milliseconds(between(rng, 500, 4000));
  c.agent.restart_grace = milliseconds(between(rng, 200, 2000));
  c.agent.orphan_limit = seconds(between(rng, 8, 15));
  c.agent.first_contact_limit = seconds(30);
  c.coordinator.agent_grace = c.agent.grace;
}

void draw_network(Rng& rng, SimConfig& c) {
  const bool reliable = rng.chance(0.5);
  if (reliable) return;
  c.loss = rng.chance(0.6) ? 0.05 * rng.uniform() : 0.3 * rng.uniform();
  c.duplication = 0.2 * rng.uniform();
  c.long_delay_chance = 0.1 * rng.uniform();
}

FaultKind draw_kind(Rng& rng) {
  static constexpr FaultKind kWeighted[] = {
      FaultKind::kWorkerFails,     FaultKind::kWorkerFails,      FaultKind::kWorkerFails,
      FaultKind::kWorkerFails,     FaultKind::kWorkerFails,      FaultKind::kWorkerFails,
      FaultKind::kStartFails,      FaultKind::kHostDies,         FaultKind::kHostDies,
      FaultKind::kAgentPauses,     FaultKind::kAgentLeaves,      FaultKind::kHostIsCut,
      FaultKind::kConnectionDrops, FaultKind::kCoordinatorDies,  FaultKind::kCoordinatorDies,
      FaultKind::kCoordinatorDies, FaultKind::kCoordinatorPauses};
  if (rng.chance(0.03)) return FaultKind::kStopRequested;
  if (rng.chance(0.01)) return FaultKind::kHostSticks;
  return kWeighted[rng.below(std::size(kWeighted))];
}

Fault draw_fault(Rng& rng, const SimConfig& c) {
  Fault f{.at_ns = between(rng, 0, c.chaos_until_ns),
          .kind = draw_kind(rng),
          .host = static_cast<int>(rng.below(c.hosts.size())),
          .lasts_ns = between(rng, 10 * kMs, rng.chance(0.7) ? 2 * kS : 12 * kS),
          .variant = rng.next()};
  if (rng.chance(f.kind == FaultKind::kCoordinatorDies ? 0.05 : 0.25)) f.lasts_ns = -1;
  return f;
}

}  // namespace

SimConfig random_config(uint64_t seed) {
  Rng rng(seed);
  SimConfig c{.seed = seed};
  c.coordinator.node_count = draw_node_count(rng);
  c.hosts = draw_hosts(rng, c.coordinator.node_count);
  draw_limits(rng, c);
  draw_network(rng, c);
  c.clock_skew = rng.chance(0.5) ? 0 : 0.15 * rng.uniform();
  c.work_ns = between(rng, 500 * kMs, 6 * kS);
  if (rng.chance(0.3)) c.work_spread_ns = between(rng, 50 * kMs, 4 * kS);
  c.chaos_until_ns = between(rng, 1 * kS, 15 * kS);
  const uint64_t fault_count = rng.below(rng.chance(0.1) ? 12 : 5);
  for (uint64_t i = 0; i < fault_count; ++i) c.faults.push_back(draw_fault(rng, c));
  if (rng.chance(0.1)) {
    const auto nodes = static_cast<uint64_t>(c.coordinator.node_count);
    c.program_fault = ProgramFault{.rank = static_cast<int>(rng.below(nodes)),
                                   .after_ns = between(rng, 0, c.work_ns),
                                   .step = rng.below(100)};
  }
  return c;
}

}  // namespace shanty::gang::sim
