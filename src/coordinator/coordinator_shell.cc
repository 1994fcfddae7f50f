#include "coordinator/coordinator_shell.h"

#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>

#include "base/from_seconds.h"
#include "base/signal_name.h"
#include "coordinator/account.h"
#include "coordinator/live_state_name.h"
#include "gang/coordinator.h"
#include "gang/coordinator_state.h"
#include "net/parent_watch.h"
#include "net/signal_watch.h"
#include "net/ws_server.h"
#include "os/process.h"
#include "wire/messages.h"

namespace shanty {
namespace {

namespace asio = boost::asio;

constexpr Duration kLiveEvery = std::chrono::seconds(1);
// After a note. Notes come by the thousand when many ranks die, and live.json names every rank.
constexpr Duration kLiveSoon = std::chrono::milliseconds(50);

gang::CoordinatorConfig make_config(const CoordinatorSpec& spec, Account::Past past) {
  return {.node_count = spec.node_count,
          .max_restarts = spec.max_restarts,
          .restart_window = from_seconds(spec.restart_window_s),
          .restart_on_exit = spec.restart_on_exit,
          .join_limit = from_seconds(spec.join_limit_s),
          .stop_limit = from_seconds(spec.stop_limit_s),
          .agent_grace = from_seconds(spec.agent_grace_s),
          .master_addr = spec.master_addr,
          .master_port = spec.master_port,
          // Later lives start later, so their epochs are higher.
          .first_epoch = static_cast<uint64_t>(system_clock().unix_time_ns()) / 1'000'000,
          .known_failures = std::move(past.failures),
          .known_generation = past.generation,
          .known_outcome = past.outcome,
          .known_reason = std::move(past.reason),
          .recovering = spec.recovering};
}

class CoordinatorShell {
 public:
  CoordinatorShell(const CoordinatorSpec& spec, RunDir run, Account account, Account::Past past)
      : spec_(spec),
        run_(std::move(run)),
        account_(std::move(account)),
        state_{.config = make_config(spec, std::move(past))},
        signals_(io_, spec.stop_signals),
        deadline_timer_(io_),
        live_timer_(io_),
        parent_(io_) {}

  int run() {
    bool in_use = false;
    auto server = net::WsServer::listen(io_,
                                        {.host = spec_.host,
                                         .port = spec_.port,
                                         .token = spec_.token,
                                         .tls = spec_.tls,
                                         .max_message_bytes = wire::kMaxMessageBytes},
                                        make_handlers(), &in_use);
    if (!server) {
      if (in_use) return kExitAddressInUse;
      fmt::print(stderr, "shanty coordinator: {}\n", server.error().message);
      return 3;
    }
    server_ = std::move(*server);
    signals_.start([this](int signal) {
      handle(gang::StopRequested{"stopped by " + signal_name(signal), signal});
    });
    watch_parent();
    handle(gang::Tick{});
    if (!spec_.stop_reason.empty()) {
      handle(gang::StopRequested{spec_.stop_reason, spec_.stop_signal});
    }
    write_live();
    io_.run();
    return state_.outcome == gang::Outcome::kSucceeded ? 0 : 1;
  }

 private:
  net::WsServer::Handlers make_handlers() {
    return {.on_open = [this](net::ConnId id,
                              const std::string& peer) { peers_[id] = Peer{.address = peer}; },
            .on_message = [this](net::ConnId id, std::string_view text) { on_message(id, text); },
            .on_close = [this](net::ConnId id, const std::string&) { on_close(id); },
            .on_rejected =
                [this](const std::string& peer, const std::string& why, uint64_t count) {
                  account_.record(event_kind::kWarning,
                                  fmt::format("turned away {} connection{} (last from {}: {})",
                                              count, count == 1 ? "" : "s", peer, why));
                }};
  }

  void on_message(net::ConnId id, std::string_view text) {
    auto message = wire::decode_agent_message(text);
    if (!message) {
      account_.record(event_kind::kAgentRefused, message.error().message);
      return server_->close(id, message.error().message);
    }
    Peer& peer = peers_[id];
    gang::Report& report = message->report;
    if (report.address.empty()) report.address = peer.address;
    peer.incarnation = report.incarnation;
    connections_[report.incarnation] = id;
    for (RankTelemetry& rank : message->ranks) keep_telemetry(std::move(rank));
    const std::string facts = std::move(message->facts_json);
    const int node_rank = report.world.node_rank;
    handle(gang::ReportReceived{std::move(report)});
    if (!facts.empty()) account_.record_facts(node_rank, facts);
  }

  void keep_telemetry(RankTelemetry telemetry) {
    if (telemetry.generation != state_.world.generation) return;
    ranks_[telemetry.rank] = std::move(telemetry);
  }

  void on_close(net::ConnId id) {
    const auto peer = peers_.find(id);
    if (peer == peers_.end()) return;
    const uint64_t incarnation = peer->second.incarnation;
    peers_.erase(peer);
    const auto current = connections_.find(incarnation);
    if (current == connections_.end() || current->second != id) return;
    connections_.erase(current);
    handle(gang::AgentDisconnected{incarnation});
  }

  void handle(const gang::CoordinatorEvent& event) {
    const gang::Now now{system_clock().now(), system_clock().unix_time_ns()};
    for (gang::CoordinatorAction& action : gang::step_coordinator(state_, event, now)) {
      std::visit([this](auto& a) { act(a); }, action);
    }
    arm_deadline();
  }

  void act(const gang::SendDirective& action) {
    const auto connection = connections_.find(action.directive.to_incarnation);
    if (connection == connections_.end()) return;
    server_->send(connection->second, wire::encode(wire::CoordinatorMessage{action.directive}));
  }

  void act(const gang::Note& note) {
    if (note.kind == gang::Note::Kind::kWorldFormed) ranks_.clear();
    text_ = note.text;
    account_.record(note);
    if (!std::exchange(live_is_due_, true)) write_live_after(kLiveSoon);
  }

  void act(const gang::Finish& finish) {
    text_ = finish.reason;
    finished_ = true;
    write_live_now();
    account_.write_report();
    signals_.stop();
    deadline_timer_.cancel();
    live_timer_.cancel();
    parent_.stop();
    server_->stop();
  }

  void arm_deadline() {
    if (finished_) return;
    const auto deadline = gang::next_deadline(state_);
    if (!deadline) return;
    deadline_timer_.expires_after(std::max(Duration(0), *deadline - system_clock().now()));
    deadline_timer_.async_wait([this](boost::system::error_code error) {
      if (!error) handle(gang::Tick{});
    });
  }

  void write_live() {
    write_live_now();
    live_is_due_ = false;
    write_live_after(kLiveEvery);
  }

  void write_live_after(Duration duration) {
    live_timer_.expires_after(duration);
    live_timer_.async_wait([this](boost::system::error_code error) {
      if (!error && !finished_) write_live();
    });
  }

  void write_live_now() {
    LiveState live{.unix_ns = system_clock().unix_time_ns(),
                   .state = live_state_name(state_),
                   .text = text_,
                   .generation = state_.world.generation,
                   .restarts = state_.world.restart_count,
                   .started_unix_ns = run_.info().started_unix_ns,
                   .nodes = spec_.node_count,
                   .world_size = state_.world.world_size};
    for (const auto& [rank, telemetry] : ranks_) live.ranks.push_back(telemetry);
    account_.write_live(live);
  }

  void watch_parent() {
    parent_.start(spec_.parent_pid, [this] {
      if (spec_.replaceable) ::raise(SIGKILL);  // no goodbye that the agents would take for an end
      handle(gang::StopRequested{
          fmt::format("the shanty run that started the job (pid {}) died", spec_.parent_pid)});
    });
  }

  struct Peer {
    std::string address;
    uint64_t incarnation = 0;
  };

  const CoordinatorSpec& spec_;
  RunDir run_;
  Account account_;
  asio::io_context io_{1};
  gang::CoordinatorState state_;
  net::SignalWatch signals_;
  asio::steady_timer deadline_timer_;
  asio::steady_timer live_timer_;
  net::ParentWatch parent_;
  std::map<net::ConnId, Peer> peers_;
  std::map<uint64_t, net::ConnId> connections_;  // by incarnation
  std::map<int, RankTelemetry> ranks_;           // of the current generation
  std::string text_;
  bool live_is_due_ = false;  // something was noted since it was written
  bool finished_ = false;
  std::unique_ptr<net::WsServer> server_;
};

}  // namespace

int run_coordinator(const CoordinatorSpec& spec) {
  raise_descriptor_limit();
  auto run = RunDir::open(spec.run_dir);
  if (!run) {
    fmt::print(stderr, "shanty coordinator: {}\n", run.error().message);
    return 3;
  }
  const auto lock = SharedLock::take(run->lock());
  auto account = Account::open(*run);
  if (!lock.ok() || !account.ok()) {
    fmt::print(stderr, "shanty coordinator: {}\n",
               lock.ok() ? account.error().message : lock.error().message);
    return 3;
  }
  Account::Past past = Account::read_past(*run);
  return CoordinatorShell(spec, std::move(*run), std::move(*account), std::move(past)).run();
}

}  // namespace shanty
