#include <algorithm>
#include <utility>

#include "gang/sim/simulation.h"

namespace shanty::gang::sim {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kAuditEveryNs = 1 * kS;
// Silence at which a lease may run out, whatever the clocks' rates.
constexpr double kSilentLeases = 0.7;
// From the last disturbance to a generation that runs everywhere, or to the end of the job: the
// recovery's listening, a lease, a grace, and some lost messages.
constexpr int64_t kSettlesWithinNs = 30 * kS;

std::string name(const World& world) { return "generation " + std::to_string(world.generation); }

}  // namespace

void Simulation::fail(const std::string& what) {
  if (tracing()) trace("VIOLATION: " + what);
  if (result_.violation.empty()) result_.violation = what;
}

// Something happened that may cost the present generation, and restarts the clock of the bounds.
void Simulation::disturb(const char* why) {
  truth_.calm_since_ns = now_ns_;
  if (truth_.worlds.empty()) return;
  WorldTruth& world = truth_.worlds.back();
  world.disturbed = true;
  ++world.disturbances;
  if (tracing()) trace(std::string("disturbed: ") + why);
}

bool Simulation::is_silent(const Host& host) const {
  const int64_t since = std::max(host.last_delivered_ns, brain_.awake_since_ns);
  const auto lease = static_cast<double>(config_.coordinator.lease.count());
  return static_cast<double>(now_ns_ - since) > kSilentLeases * lease;
}

// Without its disk a coordinator knows of past failures what its agents' world carries.
void Simulation::forget(const World& known) {
  truth_.restarts = known.restart_count;
  truth_.last_restarted = known.generation > 0 ? known.generation - 1 : 0;
  truth_.signatures.clear();
  for (const Failure& f : known.history) {
    if (!f.signature.empty()) ++truth_.signatures[f.signature];
  }
}

void Simulation::on_recovered(const Note& note) {
  brain_.disk_generation = std::max(brain_.disk_generation, note.generation);
  if (!brain_.forgot) return;
  brain_.forgot = false;
  const auto world =
      std::find_if(truth_.worlds.rbegin(), truth_.worlds.rend(),
                   [&](const WorldTruth& w) { return w.world.generation == note.generation; });
  if (world == truth_.worlds.rend()) return fail("recovered a generation that never was");
  forget(world->world);
}

// Whether the coordinator knows that the host's part of the generation is done: its end then costs
// nothing any more.
bool Simulation::is_known_done(const Host& host) const {
  if (!brain_.up || brain_.state.phase != JobPhase::kRunning) return false;
  const auto& seats = brain_.state.seats;
  return std::any_of(seats.begin(), seats.end(), [&](const Seat& seat) {
    return seat.incarnation == host.agent.config.incarnation && seat.finished;
  });
}

void Simulation::on_formed(const Note& note) {
  const World& world = *note.world;
  if (brain_.told_to_stop) return fail(name(world) + " is formed after a stop request");
  if (brain_.forgot) forget({});
  brain_.forgot = false;
  brain_.disk_generation = std::max(brain_.disk_generation, world.generation);
  if (world.generation <= brain_.heard) fail(name(world) + " is not above all that were heard of");
  brain_.heard = world.generation;
  if (newest() >= 0) {
    const WorldTruth& last = truth_.worlds.back();
    if (last.lineage == truth_.lineage && world.generation <= last.world.generation) {
      // Nothing that could speak to this life knew of the earlier ones.
      if (brain_.formed || truth_.coordinator_deaths == 0) fail(name(world) + " came twice");
      ++truth_.lineage;
      forget({});
    } else if (!is_excused(newest())) {
      fail(name(last.world) + " was given up without a cause");
    }
  }
  brain_.formed = true;
  // Agents may still hold another lineage's generation of the same number.
  WorldTruth truth{.world = world, .lineage = truth_.lineage, .disturbed = truth_.lineage > 0};
  const auto nodes = static_cast<size_t>(world.node_count);
  truth.host_of_node.assign(nodes, -1);
  truth.life_of_node.assign(nodes, 0);
  truth.fate.assign(static_cast<size_t>(world.world_size), RankFate::kUnknown);
  truth.taken.assign(static_cast<size_t>(world.world_size), false);
  // What struck before may only be found out now.
  for (const Seat& seat : brain_.state.seats) {
    truth.members.push_back(seat.incarnation);
    const Host& host = hosts_[host_of_incarnation(seat.incarnation)];
    const bool well = host.up && host.agent.config.incarnation == seat.incarnation && !host.left &&
                      now_ns_ >= host.cut_until_ns && now_ns_ >= host.paused_until_ns &&
                      !is_silent(host);
    if (well) continue;
    truth.disturbed = true;
    ++truth.disturbances;
  }
  truth_.worlds.push_back(std::move(truth));
}

void Simulation::check_start(int index, const World& world) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (host.running != 0) return fail(host.name + " runs two generations");
  if (world.generation <= host.told_to_stop) {
    return fail(host.name + " starts " + name(world) + " after it was told to stop it");
  }
  const auto of_host =
      std::find_if(truth_.worlds.rbegin(), truth_.worlds.rend(),
                   [&](const WorldTruth& w) { return w.world.generation == world.generation; });
  if (of_host == truth_.worlds.rend()) return fail(name(world) + " was never formed");
  WorldTruth& truth = *of_host;
  host.world = static_cast<int>(&truth - truth_.worlds.data());
  const World& formed = truth.world;
  if (world.world_size != formed.world_size || world.node_count != formed.node_count) {
    return fail(name(world) + " has two sizes");
  }
  if (world.master_addr != formed.master_addr || world.master_port != formed.master_port) {
    return fail(name(world) + " has two masters");
  }
  if (world.master_port == 0) return fail(name(world) + " has no master port");
  if (world.node_rank == 0 && world.master_addr != host.agent.config.address) {
    return fail(name(world) + " has its master where rank 0 is not");
  }
  if (world.node_rank < 0 || world.node_rank >= world.node_count || world.first_rank < 0 ||
      world.local_size != host.spec.slots ||
      world.first_rank + world.local_size > world.world_size) {
    return fail(name(world) + " places " + host.name + " outside itself");
  }
  const auto node = static_cast<size_t>(world.node_rank);
  if (truth.host_of_node[node] >= 0) return fail(name(world) + " has a node rank twice");
  for (int rank = world.first_rank; rank < world.first_rank + world.local_size; ++rank) {
    if (truth.taken[static_cast<size_t>(rank)]) return fail(name(world) + " has a rank twice");
    truth.taken[static_cast<size_t>(rank)] = true;
  }
  truth.host_of_node[node] = index;
  truth.life_of_node[node] = host.life;
  ++truth.nodes_started;
  if (truth.started() && std::count(truth.taken.begin(), truth.taken.end(), false) > 0) {
    return fail(name(world) + " started without some of its ranks");
  }
  result_.reports_before_start = std::max(result_.reports_before_start, host.reports_sent);
  if (truth.started() && truth_.worlds.size() == 1) result_.all_started_ns = now_ns_;
}

void Simulation::check_view(const Host& host) {
  const auto member = brain_.state.members.find(host.agent.config.incarnation);
  if (member == brain_.state.members.end() || member->second.report.seq == host.seen_seq) return;
  fail("the coordinator takes an old word of " + host.name + " for its newest");
}

void Simulation::check_stop_request() {
  const JobPhase phase = brain_.state.phase;
  const bool goes_on = phase == JobPhase::kForming || phase == JobPhase::kRunning;
  if (brain_.up && goes_on) fail("a stop request changes nothing");
}

// An agent may leave when it is told to, or when nobody spoke to it for its limit.
void Simulation::check_departure(int index) {
  Host& host = hosts_[static_cast<size_t>(index)];
  const Outcome outcome = host.agent.departure->outcome;
  if (host.left || brain_.disk_outcome != Outcome::kNone) return;
  const auto limit =
      static_cast<double>(host.last_told_ns < 0 ? config_.agent.first_contact_limit.count()
                                                : config_.agent.orphan_limit.count());
  const auto silence = static_cast<double>(now_ns_ - std::max<int64_t>(host.last_told_ns, 0));
  const bool orphan = outcome == Outcome::kFailed && silence > kSilentLeases * limit;
  if (!orphan) fail(host.name + " leaves without a cause: " + host.agent.departure->reason);
  disturb("an agent gives up");
}

bool Simulation::is_excused(int index) const {
  const WorldTruth& world = truth_.worlds[static_cast<size_t>(index)];
  if (world.disturbed || world.failed) return true;
  return std::any_of(world.members.begin(), world.members.end(), [&](uint64_t incarnation) {
    const Host& host = hosts_[host_of_incarnation(incarnation)];
    return is_silent(host) && !is_known_done(host);
  });
}

void Simulation::on_generation_ended(const Note& note) {
  const Failure& failure = *note.failure;
  brain_.disk_failures.push_back(failure);
  if (failure.reason.empty()) fail("a failure without a reason");
  if (newest() < 0) return fail("a generation failed that never was");
  const WorldTruth& world = truth_.worlds.back();
  const bool plain = config_.loss == 0 && config_.long_delay_chance == 0 &&
                     config_.clock_skew == 0 && world.disturbances == 1 &&
                     world.first_failed_rank >= 0 && truth_.coordinator_deaths == 0 &&
                     brain_.paused_until_ns == 0;
  if (plain && world.world.generation == failure.generation &&
      failure.rank != world.first_failed_rank) {
    fail("rank " + std::to_string(failure.rank) + " is blamed for what rank " +
         std::to_string(world.first_failed_rank) + " did");
  }
}

// Stopping and restarting need a cause, which counts even if this life dies before it acts on it.
void Simulation::check_cause(const Note& note, const char* what) {
  if (newest() < 0 || truth_.stop_requested) return;
  if (note.generation != truth_.worlds.back().world.generation) return;
  if (!is_excused(newest())) fail(name(truth_.worlds.back().world) + what + " without a cause");
  truth_.worlds.back().disturbed = true;
}

void Simulation::on_restarting(const Note& note) {
  check_cause(note, " is restarted");
  if (!note.failure) {
    if (++truth_.free_restarts > truth_.coordinator_deaths) fail("a restart that nothing explains");
    return;
  }
  const CoordinatorConfig& c = config_.coordinator;
  const Failure& failure = *note.failure;
  if (failure.generation <= truth_.last_restarted) return;  // an earlier life decided the same
  truth_.last_restarted = failure.generation;
  ++truth_.restarts;
  if (c.restart_window == Duration::zero() && truth_.restarts > c.max_restarts) {
    fail("the restart budget is exceeded");
  }
  const int64_t since = brain_.clock.at(now_ns_).unix_ns - c.restart_window.count();
  const auto recent = std::count_if(truth_.restart_unix_ns.begin(), truth_.restart_unix_ns.end(),
                                    [&](int64_t at) { return at > since; });
  if (recent >= c.max_restarts) fail("the restart budget of the window is exceeded");
  truth_.restart_unix_ns.push_back(failure.unix_ns);
  if (!failure.signature.empty() && ++truth_.signatures[failure.signature] > 1) {
    fail("restarted after the same failure twice: " + failure.signature);
  }
  if (!c.restart_on_exit && failure.reason.starts_with("exited")) {
    fail("restarted after an exit of the program's own");
  }
}

void Simulation::on_ended(const Note& note) {
  result_.outcome = note.outcome;
  brain_.disk_outcome = note.outcome;
  brain_.disk_reason = note.text;
  if (note.text.empty()) fail("the job ended without a reason");
  const bool none = newest() < 0;
  switch (note.outcome) {
    case Outcome::kNone:
      return fail("the job ended without an outcome");
    case Outcome::kStopped:
      if (!truth_.stop_requested) fail("stopped though nobody asked for it");
      return;
    case Outcome::kFailed:
      if (!none && !truth_.anything_stuck && !is_excused(newest())) fail("failed without a cause");
      return;
    case Outcome::kSucceeded:
      break;
  }
  const auto last =
      std::find_if(truth_.worlds.rbegin(), truth_.worlds.rend(), [&](const WorldTruth& w) {
        // Once all memory was lost an older lineage may turn out to be alive.
        return truth_.lineage == 0 ? w.nodes_started > 0 : w.world.generation == note.generation;
      });
  if (last == truth_.worlds.rend()) return fail("succeeded without a generation");
  const auto& fate = last->fate;
  if (!std::all_of(fate.begin(), fate.end(), [](RankFate f) { return f == RankFate::kFinished; })) {
    fail("succeeded though not every rank of the last generation did");
  }
}

// Whether enough agents are there for every node rank to be held.
bool Simulation::could_run() const {
  std::vector<bool> fixed(static_cast<size_t>(config_.coordinator.node_count), false);
  size_t loose = 0;
  for (const Host& host : hosts_) {
    if (host.sticks) return false;
    if (!host.up || host.left || host.agent.departure) continue;
    if (host.spec.wanted_node_rank < 0) {
      ++loose;
    } else {
      fixed[static_cast<size_t>(host.spec.wanted_node_rank)] = true;
    }
  }
  return static_cast<size_t>(std::count(fixed.begin(), fixed.end(), true)) + loose >= fixed.size();
}

bool Simulation::is_healthy() const {
  if (newest() < 0) return false;
  const WorldTruth& world = truth_.worlds.back();
  if (world.failed || !world.started()) return false;
  for (size_t node = 0; node < world.host_of_node.size(); ++node) {
    const Host& host = hosts_[static_cast<size_t>(world.host_of_node[node])];
    if (!host.up || host.life != world.life_of_node[node]) return false;
    if (host.agent.world.generation != world.world.generation) return false;
  }
  return true;
}

void Simulation::audit() {
  push({.at_ns = now_ns_ + kAuditEveryNs, .what = What::kAudit});
  if (!brain_.up || brain_.disk_outcome != Outcome::kNone || truth_.anything_stuck) return;
  if (now_ns_ - truth_.calm_since_ns < kSettlesWithinNs || !could_run() || is_healthy()) return;
  fail("all expected agents are there, yet no generation runs");
}

}  // namespace shanty::gang::sim
