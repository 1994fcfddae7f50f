#include <algorithm>
#include <csignal>
#include <utility>

#include "gang/sim/simulation.h"

namespace shanty::gang::sim {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1'000'000'000;

struct Ending {
  int signal;
  int exit_code;
  const char* error;
  bool out_of_memory;
};

// How an injected failure looks, by variant.
constexpr Ending kEndings[] = {
    {SIGKILL, 0, "", false},
    {SIGSEGV, 0, "", false},
    {SIGABRT, 0, "", false},
    {SIGKILL, 0, "", true},
    {0, 3, "", false},
    {0, 1, "RuntimeError: shape mismatch", false},
    {0, 1, "KeyError: 'x'", false},
    {SIGTERM, 0, "", false},
};

}  // namespace

void Simulation::start_host(int index) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (host.up) return;
  const auto number = std::to_string(index);
  ++host.life;
  host.name = "h" + number + "." + std::to_string(host.life);
  host.up = true;
  host.left = false;
  host.sticks = false;
  host.start_will_fail = false;
  host.timer_at_ns = -1;
  host.paused_until_ns = 0;
  host.last_delivered_ns = -1;
  host.last_delivered_seq = 0;
  host.seen_seq = 0;
  host.last_told_ns = -1;
  host.told_to_stop = 0;
  host.reports_sent = 0;
  const double skew = config_.clock_skew * (2 * rng_.uniform() - 1);
  host.clock = {.rate = 1 + skew,
                .mono_offset_ns = static_cast<int64_t>(rng_.below(1'000'000)) * kS,
                .unix_offset_ns = static_cast<int64_t>(rng_.below(600)) * kS};
  host.agent = AgentState{.config = config_.agent};
  AgentConfig& c = host.agent.config;
  c.incarnation = incarnation_of(static_cast<size_t>(index), host.life);
  c.node = host.name;
  c.wanted_node_rank = host.spec.wanted_node_rank;
  c.slots = host.spec.slots;
  c.address = "10.0." + number;
  truth_.calm_since_ns = now_ns_;
  if (tracing()) trace(host.name + " is there");
  const bool port_is_late = config_.chaos_until_ns > 0 && rng_.chance(0.1);
  if (port_is_late) {
    reserve_port(index);
    step_host(index, Tick{});
  } else {
    step_host(index, PortReserved{draw_port()});
  }
  result_.last_hello_ns = std::max(result_.last_hello_ns, now_ns_);
}

uint16_t Simulation::draw_port() { return static_cast<uint16_t>(20000 + rng_.below(30000)); }

// The shell finds a free port for the next generation, mostly at once.
void Simulation::reserve_port(int index) {
  const int64_t after_ns = rng_.chance(0.05) ? static_cast<int64_t>(rng_.below(1500)) * kMs : kMs;
  push({.at_ns = now_ns_ + after_ns,
        .what = What::kPort,
        .host = index,
        .life = hosts_[static_cast<size_t>(index)].life,
        .payload = draw_port()});
}

void Simulation::kill_host(int index, int64_t successor_after_ns) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (!host.up) return;
  truth_.calm_since_ns = now_ns_;
  if (!is_known_done(host)) disturb("a host dies");
  if (tracing()) trace(host.name + " dies");
  clear_host(index);
  host.up = false;
  if (rng_.chance(0.7)) drop_connection(index, 2 * kMs);
  if (successor_after_ns < 0) return;
  push({.at_ns = now_ns_ + successor_after_ns, .what = What::kHostStarts, .host = index});
}

void Simulation::fail_worker(int index, uint64_t variant) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (!host.up || host.running == 0) return;
  const size_t local = (variant >> 8) % host.alive.size();
  if (!host.alive[local] || host.signalled) return;
  const Ending& ending = kEndings[variant % std::size(kEndings)];
  const uint64_t step = (variant >> 16) % 4 == 0 ? kNoStep : (variant >> 20) % 100;
  end_worker(index, local,
             {.local_rank = static_cast<int>(local),
              .exit_code = ending.exit_code,
              .signal = ending.signal,
              .out_of_memory = ending.out_of_memory,
              .step = step,
              .error = ending.error});
}

void Simulation::cut(const Fault& fault) {
  disturb("a cut");
  int64_t until = now_ns_ + fault.lasts_ns;
  if (fault.lasts_ns < 0) until = config_.chaos_until_ns;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const bool chosen = static_cast<int>(i) == fault.host || ((fault.variant >> (i % 60)) & 1) != 0;
    if (chosen) hosts_[i].cut_until_ns = std::max(hosts_[i].cut_until_ns, until);
  }
  push({.at_ns = until, .what = What::kHostResumes});
}

// Whether another agent may ask for a node rank that is held: a spare, or a late word of an agent
// that is no more.
bool Simulation::has_rivals() const {
  return hosts_.size() > static_cast<size_t>(config_.coordinator.node_count) ||
         std::any_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.life > 1; });
}

void Simulation::inject(const Fault& fault) {
  Host& host = hosts_[static_cast<size_t>(fault.host)];
  if (tracing()) {
    trace("fault " + std::to_string(static_cast<int>(fault.kind)) + " on " + host.name + " for " +
          std::to_string(fault.lasts_ns / kMs) + " ms");
  }
  switch (fault.kind) {
    case FaultKind::kWorkerFails:
      return fail_worker(fault.host, fault.variant);
    case FaultKind::kStartFails:
      host.start_will_fail = true;
      return;
    case FaultKind::kHostDies:
      return kill_host(fault.host, fault.lasts_ns);
    case FaultKind::kAgentPauses:
      disturb("an agent pauses");
      host.paused_until_ns = fault.lasts_ns < 0 ? config_.chaos_until_ns : now_ns_ + fault.lasts_ns;
      return push({.at_ns = host.paused_until_ns, .what = What::kHostResumes});
    case FaultKind::kAgentLeaves:
      if (!host.up || now_ns_ < host.paused_until_ns) return;
      disturb("an agent leaves");
      host.left = true;
      if (fault.lasts_ns >= 0) {
        push({.at_ns = now_ns_ + 10 * kS + fault.lasts_ns,
              .what = What::kHostStarts,
              .host = fault.host});
      }
      return step_host(fault.host, LeaveRequested{"told to leave"});
    case FaultKind::kHostSticks:
      disturb("a host sticks");
      truth_.anything_stuck = true;
      host.sticks = true;
      return;
    case FaultKind::kHostIsCut:
      return cut(fault);
    case FaultKind::kConnectionDrops:
      if (!host.up) return;
      // With someone there to take its node rank this may cost a generation.
      if (has_rivals()) disturb("a close");
      return drop_connection(fault.host, 0);
    case FaultKind::kCoordinatorDies:
      if (!brain_.up) return;
      if (fault.variant % 4 == 0) {
        brain_.crash_after_actions = static_cast<int>((fault.variant >> 8) % 4);
        brain_.crash_lasts_ns = fault.lasts_ns;
        brain_.crash_variant = fault.variant;
        return;
      }
      return kill_coordinator(fault.lasts_ns, fault.variant);
    case FaultKind::kCoordinatorPauses:
      if (!brain_.up || now_ns_ < brain_.paused_until_ns) return;
      brain_.paused_until_ns = now_ns_ + std::max<int64_t>(fault.lasts_ns, 0);
      // Short pauses go unnoticed and are taken from the leases.
      if (fault.lasts_ns > 2 * kS) brain_.awake_since_ns = brain_.paused_until_ns;
      truth_.calm_since_ns = brain_.paused_until_ns;
      return;
    case FaultKind::kStopRequested:
      if (!brain_.up || now_ns_ < brain_.paused_until_ns) return;
      disturb("a stop is requested");
      truth_.stop_requested = true;
      brain_.told_to_stop = true;
      step_coordinator_now(StopRequested{"stop requested"});
      return check_stop_request();
  }
}

// A coordinator that dies costs a generation only if that was not yet running everywhere.
void Simulation::kill_coordinator(int64_t reborn_after_ns, uint64_t variant) {
  if (tracing()) trace("coordinator dies");
  ++truth_.coordinator_deaths;
  truth_.calm_since_ns = now_ns_;
  if (newest() >= 0 && !is_healthy()) truth_.worlds.back().disturbed = true;
  const bool is_zombie = (variant >> 16) % 3 == 0 && brain_.crash_after_actions < 0;
  if (is_zombie) {
    zombie_ = brain_;
    const auto wakes_after = static_cast<int64_t>((variant >> 20) % 12'000) * kMs;
    push({.at_ns = now_ns_ + wakes_after, .what = What::kZombie});
  }
  brain_.up = false;
  brain_.crash_after_actions = -1;
  if (reborn_after_ns < 0) return disturb("no coordinator any more");
  push({.at_ns = now_ns_ + reborn_after_ns, .what = What::kCoordinatorReborn, .payload = variant});
}

void Simulation::start_coordinator(bool reborn, uint64_t variant) {
  CoordinatorConfig c = config_.coordinator;
  const bool forgot = reborn && (variant >> 32) % 4 == 0;
  if (reborn) {
    c.recovering = true;
    c.first_epoch = forgot ? 1 : brain_.state.epoch + 1;
    c.known_outcome = brain_.disk_outcome;
    c.known_reason = brain_.disk_reason;
    if (forgot) {
      brain_.disk_failures.clear();
      brain_.disk_generation = 0;
    }
    c.known_failures = brain_.disk_failures;
    c.known_generation = brain_.disk_generation;
  }
  if (tracing())
    trace(std::string("coordinator starts") + (forgot ? ", having lost its disk" : ""));
  ++brain_.life;
  brain_.up = true;
  brain_.formed = false;
  brain_.forgot = brain_.forgot || forgot;
  brain_.told_to_stop = false;
  brain_.heard = c.known_generation;
  brain_.state = CoordinatorState{.config = std::move(c)};
  brain_.timer_at_ns = -1;
  brain_.paused_until_ns = 0;
  brain_.awake_since_ns = now_ns_;
  brain_.clock = {
      .rate = 1 + config_.clock_skew * (2 * rng_.uniform() - 1),
      .mono_offset_ns = static_cast<int64_t>(rng_.below(1'000'000)) * kS,
      .unix_offset_ns = brain_.clock.unix_offset_ns + static_cast<int64_t>(rng_.below(5)) * kS};
  truth_.calm_since_ns = now_ns_;
  truth_.restart_unix_ns.clear();
  step_coordinator_now(Tick{});
}

// An earlier life that was only stopped goes on as if it were still in charge. Agents that have
// heard its successor must not listen to it.
void Simulation::wake_zombie() {
  if (zombie_.life == 0 || !brain_.up || brain_.finished || brain_.life == zombie_.life) return;
  const bool all_know = std::all_of(hosts_.begin(), hosts_.end(), [&](const Host& h) {
    return !h.up || h.agent.epoch >= brain_.state.epoch;
  });
  if (!all_know || brain_.state.epoch <= zombie_.state.epoch) return;
  if (tracing()) trace("an earlier coordinator wakes");
  for (int64_t late_s = 0; late_s <= 40; late_s += 4) {
    auto actions = step_coordinator(zombie_.state, Tick{}, zombie_.clock.at(now_ns_ + late_s * kS));
    for (CoordinatorAction& action : actions) {
      if (auto* send = std::get_if<SendDirective>(&action)) {
        send_directive(std::move(send->directive));
      }
    }
  }
}

}  // namespace shanty::gang::sim
