#include "gang/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shanty::gang::sim {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kAuditEveryNs = 1 * kS;
// By then every limit of the state machines has run out, one after the other.
constexpr int64_t kEndsWithinNs = 400 * kS;
constexpr uint64_t kMaxEvents = 2'000'000;  // several times those of 10,000 agents
constexpr int64_t kEpochUnixNs = 1'700'000'000 * kS;

bool is_later(const Event& a, const Event& b) {
  return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
}

}  // namespace

Now SkewedClock::at(int64_t sim_ns) const {
  const auto local = static_cast<int64_t>(static_cast<double>(sim_ns) * rate);
  return {.mono = {mono_offset_ns + local}, .unix_ns = kEpochUnixNs + unix_offset_ns + local};
}

int64_t SkewedClock::to_sim(TimePoint local) const {
  const auto since = static_cast<double>(local.ns - mono_offset_ns);
  return static_cast<int64_t>(std::ceil(since / rate)) + 1;
}

Simulation::Simulation(const SimConfig& config) : config_(config), rng_(config.seed ^ 0x5eed) {
  hosts_.resize(config.hosts.size());
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].spec = config.hosts[i];
    push({.at_ns = config.hosts[i].starts_at_ns,
          .what = What::kHostStarts,
          .host = static_cast<int>(i)});
  }
  for (size_t i = 0; i < config.faults.size(); ++i) {
    push({.at_ns = config.faults[i].at_ns, .what = What::kFault, .payload = i});
  }
  push({.at_ns = kAuditEveryNs, .what = What::kAudit});
  start_coordinator(false, 0);
}

void Simulation::push(Event event) {
  event.order = ++order_;
  queue_.push_back(event);
  std::push_heap(queue_.begin(), queue_.end(), is_later);
}

SimResult Simulation::run() {
  while (!queue_.empty() && result_.violation.empty() && !is_over()) {
    std::pop_heap(queue_.begin(), queue_.end(), is_later);
    const Event event = queue_.back();
    queue_.pop_back();
    now_ns_ = std::max(now_ns_, event.at_ns);
    ++result_.events;
    handle(event);
    if (result_.events > kMaxEvents) fail("the state machines spin");
    if (now_ns_ > config_.chaos_until_ns + kEndsWithinNs) fail("the job did not end");
  }
  result_.generations = static_cast<int>(truth_.worlds.size());
  return std::move(result_);
}

// The agent process an event is meant for, if it still exists. Deferred while it is stopped.
Host* Simulation::host_for(const Event& event) {
  Host& host = hosts_[static_cast<size_t>(event.host)];
  if (!host.up || host.life != event.life) return nullptr;
  if (now_ns_ >= host.paused_until_ns) return &host;
  Event later = event;
  later.at_ns = host.paused_until_ns;
  queue_.push_back(later);
  std::push_heap(queue_.begin(), queue_.end(), is_later);
  return nullptr;
}

void Simulation::handle(const Event& e) {
  switch (e.what) {
    case What::kHostStarts:
      return start_host(e.host);
    case What::kAgentTimer:
      if (Host* host = host_for(e)) {
        if (host->timer_at_ns <= now_ns_) host->timer_at_ns = -1;
        step_host(e.host, Tick{});
      }
      return;
    case What::kCoordinatorTimer:
      if (!brain_.up || brain_.life != e.life) return;
      if (now_ns_ < brain_.paused_until_ns) {
        return push({.at_ns = brain_.paused_until_ns, .what = e.what, .life = e.life});
      }
      brain_.timer_at_ns = -1;
      return step_coordinator_now(Tick{});
    case What::kReport:
      return deliver_report(e);
    case What::kDirective:
      return deliver_directive(e);
    case What::kDisconnect:
      if (brain_.up && brain_.life == e.life) step_coordinator_now(AgentDisconnected{e.payload});
      return;
    case What::kWorkerEnds:
      return worker_event(e);
    case What::kExitSeen:
      if (host_for(e)) {
        step_host(e.host, WorkersEnded{e.generation, {exits_.take(e.payload)}});
      }
      return;
    case What::kAllGone: {
      Host& host = hosts_[static_cast<size_t>(e.host)];
      if (host.life != e.life || host.running != e.generation) return;
      if (!host_for(e)) return;
      host.running = 0;
      return step_host(e.host, WorkersGone{e.generation});
    }
    case What::kStartFails:
      if (host_for(e)) step_host(e.host, StartFailed{e.generation, "no such file"});
      return;
    case What::kPort:
      if (host_for(e)) step_host(e.host, PortReserved{static_cast<uint16_t>(e.payload)});
      return;
    case What::kFault:
      return inject(config_.faults[e.payload]);
    case What::kHostResumes:
      return disturb("a pause or cut is over");
    case What::kCoordinatorReborn:
      return start_coordinator(true, e.payload);
    case What::kZombie:
      return wake_zombie();
    case What::kAudit:
      return audit();
  }
}

void Simulation::step_host(int index, const AgentEvent& event) {
  Host& host = hosts_[static_cast<size_t>(index)];
  const bool had_departure = host.agent.departure.has_value();
  auto actions = step_agent(host.agent, event, host.clock.at(now_ns_));
  if (!had_departure && host.agent.departure) check_departure(index);
  for (AgentAction& action : actions) perform(index, action);
  arm_host(index);
}

void Simulation::perform(int index, AgentAction& action) {
  Host& host = hosts_[static_cast<size_t>(index)];
  if (auto* start = std::get_if<StartWorkers>(&action)) return start_workers(index, start->world);
  if (auto* signal = std::get_if<SignalWorkers>(&action))
    return signal_workers(index, signal->kill);
  if (auto* send = std::get_if<SendReport>(&action))
    return send_report(index, std::move(send->report));
  if (auto* note = std::get_if<Note>(&action)) {
    if (tracing()) trace(host.name + " notes: " + note->text);
    return;
  }
  if (host.running != 0) fail(host.name + " left while its workers were alive");
  if (tracing()) trace(host.name + " exits: " + std::get<ExitAgent>(action).reason);
  host.up = false;
  drop_connection(index, 5 * kMs);
}

void Simulation::arm_host(int index) {
  Host& host = hosts_[static_cast<size_t>(index)];
  const auto due = next_deadline(host.agent);
  if (!host.up || !due) return;
  const int64_t at = std::max(now_ns_ + 1, host.clock.to_sim(*due));
  if (host.timer_at_ns >= 0 && host.timer_at_ns <= at) return;
  host.timer_at_ns = at;
  push({.at_ns = at, .what = What::kAgentTimer, .host = index, .life = host.life});
}

void Simulation::step_coordinator_now(const CoordinatorEvent& event) {
  auto actions = step_coordinator(brain_.state, event, brain_.clock.at(now_ns_));
  for (size_t i = 0; i < actions.size(); ++i) {
    if (brain_.crash_after_actions >= 0 && actions.size() > 1 &&
        static_cast<int>(i) > brain_.crash_after_actions) {
      return kill_coordinator(brain_.crash_lasts_ns, brain_.crash_variant);
    }
    perform(actions[i]);
  }
  arm_coordinator();
}

void Simulation::perform(CoordinatorAction& action) {
  if (auto* send = std::get_if<SendDirective>(&action)) {
    return send_directive(std::move(send->directive));
  }
  if (const auto* finish = std::get_if<Finish>(&action)) {
    if (tracing()) trace("coordinator finishes: " + std::string(to_string(finish->outcome)));
    if (finish->outcome != result_.outcome) fail("finished other than it ended");
    brain_.finished = true;
    brain_.up = false;
    return;
  }
  const Note& note = std::get<Note>(action);
  if (tracing()) trace(std::string("coordinator notes ") + to_string(note.kind) + ": " + note.text);
  switch (note.kind) {
    case Note::Kind::kWorldFormed:
      return on_formed(note);
    case Note::Kind::kGenerationEnded:
      return on_generation_ended(note);
    case Note::Kind::kRestarting:
      return on_restarting(note);
    case Note::Kind::kEnded:
      return on_ended(note);
    case Note::Kind::kAgentJoined:
    case Note::Kind::kAgentLost:
    case Note::Kind::kAgentLeft:
    case Note::Kind::kAgentRefused:
    case Note::Kind::kWaiting:
    case Note::Kind::kWorkerFailed:
      return;
    case Note::Kind::kRecovered:
      return on_recovered(note);
    case Note::Kind::kStopping:
      return check_cause(note, " is stopped");
  }
}

void Simulation::arm_coordinator() {
  const auto due = next_deadline(brain_.state);
  if (!brain_.up || !due) return;
  const int64_t at = std::max(now_ns_ + 1, brain_.clock.to_sim(*due));
  if (brain_.timer_at_ns >= 0 && brain_.timer_at_ns <= at) return;
  brain_.timer_at_ns = at;
  push({.at_ns = at, .what = What::kCoordinatorTimer, .life = brain_.life});
}

bool Simulation::is_over() const {
  if (now_ns_ < config_.chaos_until_ns && !brain_.finished) return false;
  if (brain_.up || (!brain_.finished && now_ns_ <= config_.chaos_until_ns + 13 * kS)) return false;
  return std::none_of(hosts_.begin(), hosts_.end(), [](const Host& host) {
    return !host.sticks && (host.up || host.running != 0 || host.life == 0);
  });
}

void Simulation::trace(const std::string& text) {
  result_.trace.push_back(std::to_string(now_ns_ / 1000) + " us  " + text);
}

SimResult simulate(const SimConfig& config) { return Simulation(config).run(); }

std::string explain_violation(const SimConfig& config) {
  constexpr size_t kTail = 80;
  SimConfig again = config;
  again.trace = true;
  const SimResult result = simulate(again);
  std::string text = "seed " + std::to_string(config.seed) + ": " + result.violation + "\n";
  const size_t first = result.trace.size() - std::min(result.trace.size(), kTail);
  for (size_t i = first; i < result.trace.size(); ++i) text += "  " + result.trace[i] + "\n";
  return text;
}

}  // namespace shanty::gang::sim
