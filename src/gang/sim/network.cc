#include <algorithm>
#include <utility>

#include "gang/sim/simulation.h"

namespace shanty::gang::sim {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kMaxUsualDelayNs = 3 * kMs;
constexpr int64_t kMaxLongDelayNs = 2'000 * kMs;

}  // namespace

int64_t Simulation::draw_delay() {
  const bool is_long = now_ns_ < config_.chaos_until_ns && config_.long_delay_chance > 0 &&
                       rng_.chance(config_.long_delay_chance);
  const int64_t most = is_long ? kMaxLongDelayNs : kMaxUsualDelayNs;
  return 50'000 + static_cast<int64_t>(rng_.below(static_cast<uint64_t>(most)));
}

bool Simulation::is_cut(int host) const {
  return now_ns_ < hosts_[static_cast<size_t>(host)].cut_until_ns;
}

bool Simulation::drops() {
  return config_.loss > 0 && now_ns_ < config_.chaos_until_ns && rng_.chance(config_.loss);
}

void Simulation::send_report(int index, Report report) {
  Host& host = hosts_[static_cast<size_t>(index)];
  ++result_.reports;
  ++host.reports_sent;
  if (tracing()) {
    trace(host.name + " reports " + to_string(report.phase) + " generation " +
          std::to_string(report.world.generation) + " seq " + std::to_string(report.seq) +
          " epoch " + std::to_string(report.epoch) + (report.leaving ? " leaving" : ""));
  }
  if (is_cut(index) || drops()) return;
  if (config_.duplication > 0 && rng_.chance(config_.duplication)) {
    push({.at_ns = now_ns_ + draw_delay(),
          .what = What::kReport,
          .host = index,
          .payload = reports_.put(report)});
  }
  push({.at_ns = now_ns_ + draw_delay(),
        .what = What::kReport,
        .host = index,
        .payload = reports_.put(std::move(report))});
}

void Simulation::deliver_report(const Event& e) {
  if (brain_.up && now_ns_ < brain_.paused_until_ns) {
    Event later = e;
    later.at_ns = brain_.paused_until_ns;
    return push(later);
  }
  Report report = reports_.take(e.payload);
  Host& host = hosts_[static_cast<size_t>(e.host)];
  if (!brain_.up) return;
  if (report.incarnation == host.agent.config.incarnation && report.seq > host.last_delivered_seq) {
    if (is_silent(host)) disturb("a report came late");
    host.last_delivered_seq = report.seq;
    host.last_delivered_ns = now_ns_;
  }
  brain_.heard = std::max(brain_.heard, report.world.generation);
  const uint64_t incarnation = report.incarnation;
  if (incarnation != host.agent.config.incarnation) {
    return step_coordinator_now(ReportReceived{std::move(report)});
  }
  if (host.seen_by_life != brain_.life) host.seen_seq = 0;
  host.seen_by_life = brain_.life;
  host.seen_seq = std::max(host.seen_seq, report.seq);
  step_coordinator_now(ReportReceived{std::move(report)});
  check_view(host);
}

void Simulation::send_directive(Directive directive) {
  ++result_.directives;
  const auto index = static_cast<int>(host_of_incarnation(directive.to_incarnation));
  if (tracing()) {
    trace("coordinator tells " + hosts_[static_cast<size_t>(index)].name + ": " +
          to_string(directive.wish) + " " + std::to_string(directive.world.generation) + " epoch " +
          std::to_string(directive.epoch) + " seq " + std::to_string(directive.seq) + " " +
          directive.reason);
  }
  if (is_cut(index) || drops()) return;
  const uint64_t life = life_of_incarnation(directive.to_incarnation);
  if (config_.duplication > 0 && rng_.chance(config_.duplication)) {
    push({.at_ns = now_ns_ + draw_delay(),
          .what = What::kDirective,
          .host = index,
          .life = life,
          .payload = directives_.put(directive)});
  }
  push({.at_ns = now_ns_ + draw_delay(),
        .what = What::kDirective,
        .host = index,
        .life = life,
        .payload = directives_.put(std::move(directive))});
}

void Simulation::deliver_directive(const Event& e) {
  Host* host = host_for(e);
  if (host == nullptr) return;
  Directive directive = directives_.take(e.payload);
  const AgentState& agent = host->agent;
  const bool is_fresh = directive.epoch > agent.epoch ||
                        (directive.epoch == agent.epoch && directive.seq > agent.directive_seq);
  if (directive.epoch > agent.epoch) host->told_to_stop = 0;
  if (is_fresh) host->last_told_ns = now_ns_;
  if (is_fresh && directive.wish == Wish::kStop) host->told_to_stop = directive.world.generation;
  step_host(e.host, DirectiveReceived{std::move(directive)});
}

void Simulation::drop_connection(int index, int64_t after_ns) {
  push({.at_ns = now_ns_ + after_ns,
        .what = What::kDisconnect,
        .life = brain_.life,
        .payload = hosts_[static_cast<size_t>(index)].agent.config.incarnation});
}

}  // namespace shanty::gang::sim
