#include "agent/agent_shell.h"

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>

#include "agent/checkpoint_host.h"
#include "agent/exit_facts.h"
#include "agent/injector.h"
#include "agent/log_pump.h"
#include "agent/monitor.h"
#include "agent/node_recorder.h"
#include "agent/worker_set.h"
#include "base/from_seconds.h"
#include "base/random.h"
#include "base/signal_name.h"
#include "base/units.h"
#include "gang/agent.h"
#include "gang/agent_state.h"
#include "net/address.h"
#include "net/parent_watch.h"
#include "net/signal_watch.h"
#include "net/ws_client.h"
#include "os/process.h"
#include "run/events.h"
#include "wire/messages.h"

namespace shanty {
namespace {

namespace asio = boost::asio;

constexpr Duration kDrainEvery = std::chrono::milliseconds(200);
constexpr size_t kMaxEarlyEvents = 256;
// A coordinator that nobody hears is spoken of after this long, and then as often.
constexpr Duration kSilenceToldAfter = std::chrono::seconds(5);
constexpr Duration kSilenceToldEvery = std::chrono::seconds(30);

uint64_t make_incarnation() {
  uint64_t value = 0;
  const std::string bytes = secure_random_bytes(sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value | 1;
}

gang::AgentConfig make_config(const AgentSpec& spec) {
  return {.incarnation = make_incarnation(),
          .node = host_name(),
          .wanted_node_rank = spec.wanted_node_rank,
          .slots = spec.slots,
          .address = spec.address,
          .grace = from_seconds(spec.grace_s),
          .restart_grace = from_seconds(spec.restart_grace_s),
          .orphan_limit = from_seconds(spec.orphan_limit_s),
          .first_contact_limit = from_seconds(spec.first_contact_limit_s)};
}

std::vector<int> with_child_signal(std::vector<int> signals) {
  signals.push_back(SIGCHLD);
  return signals;
}

net::WsClient::Options make_client_options(const AgentSpec& spec) {
  return {.host = spec.coordinator_host,
          .port = spec.coordinator_port,
          .token = spec.token,
          .tls = spec.tls,
          .max_message_bytes = wire::kMaxMessageBytes};
}

class AgentShell {
 public:
  AgentShell(const AgentSpec& spec, RunDir run)
      : spec_(spec),
        run_(std::move(run)),
        state_{.config = make_config(spec)},
        pump_([this](std::string problem) {
          asio::post(io_, [this, problem] { record(event_kind::kWarning, problem); });
        }),
        checkpoints_(io_, [this](pid_t engine) { workers_.set_bystander(engine); }),
        workers_(spec_, run_, pump_, checkpoints_.socket_name()),
        monitor_(run_),
        injector_(spec_.injects),
        signals_(io_, with_child_signal(spec.stop_signals)),
        deadline_timer_(io_),
        drain_timer_(io_),
        silence_timer_(io_),
        parent_(io_),
        client_(io_, make_client_options(spec_), make_handlers()) {}

  int run() {
    if (spec_.wanted_node_rank >= 0) open_events(spec_.wanted_node_rank);
    signals_.start([this](int signal) { on_signal(signal); });
    watch_parent();
    offer_port();
    client_.start();
    watch_silence();
    handle(gang::Tick{});
    io_.run();
    checkpoints_.finish();
    return outcome_ == gang::Outcome::kSucceeded ? 0 : 1;
  }

 private:
  net::WsClient::Handlers make_handlers() {
    return {
        .on_open =
            [this] {
              silence_timer_.cancel();
              send_last_report();
            },
        .on_message = [this](std::string_view text) { on_message(text); },
        .on_close =
            [this](const std::string& reason) {
              if (leaving_) return;
              record(event_kind::kWarning, "lost the coordinator: " + reason);
              watch_silence();
            },
        .on_rejected = [this](const std::string& reason) { tell(event_kind::kWarning, reason); }};
  }

  void watch_silence() {
    silent_since_ = system_clock().now();
    tell_silence_after(kSilenceToldAfter);
  }

  void tell_silence_after(Duration duration) {
    silence_timer_.expires_after(duration);
    silence_timer_.async_wait([this](boost::system::error_code error) {
      if (error || leaving_ || client_.connected()) return;
      tell(event_kind::kWaiting,
           fmt::format("no coordinator for {}: {}",
                       format_duration(to_seconds(system_clock().now() - silent_since_)),
                       client_.last_error()));
      tell_silence_after(kSilenceToldEvery);
    });
  }

  gang::Now now() const { return {system_clock().now(), system_clock().unix_time_ns()}; }

  void handle(const gang::AgentEvent& event) {
    for (gang::AgentAction& action : gang::step_agent(state_, event, now())) {
      std::visit([this](auto& a) { act(a); }, action);
    }
    arm_deadline();
  }

  void act(const gang::StartWorkers& action) {
    master_port_ = std::exchange(offered_port_, {});
    killing_ = false;
    gone_told_ = false;
    open_events(action.world.node_rank);
    const Status started = workers_.start(action.world);
    monitor_.begin(workers_);
    arm_drain();
    asio::post(io_, [this] { offer_port(); });
    if (started.ok()) {
      record_started();
      return;
    }
    const std::string reason = started.error().message;
    record(event_kind::kWarning, reason);
    asio::post(io_, [this, reason, generation = action.world.generation] {
      handle(gang::StartFailed{generation, reason});
      check_gone();
    });
  }

  void act(const gang::SignalWorkers& action) {
    if (!action.kill) return workers_.signal(action.signal);
    killing_ = true;
    workers_.kill();
    asio::post(io_, [this] { check_gone(); });
  }

  void act(const gang::SendReport& action) {
    last_report_ = action.report;
    send_last_report();
  }

  void act(const gang::ExitAgent& action) {
    outcome_ = action.outcome;
    leaving_ = true;
    record(event_kind::kAgentLeft, action.reason);
    signals_.stop();
    deadline_timer_.cancel();
    drain_timer_.cancel();
    silence_timer_.cancel();
    parent_.stop();
    checkpoints_.close();
    client_.stop();
  }

  void act(const gang::Note& note) { record(event_kind::kStopping, note.text); }

  void send_last_report() {
    if (!client_.connected()) return;
    wire::AgentMessage message{.report = last_report_};
    if (workers_.world().generation > 0) {
      message.ranks = monitor_.telemetry(workers_);
      const std::string facts = monitor_.take_facts(workers_);
      if (!facts.empty()) facts_ = facts;
      message.facts_json = facts_;
    }
    client_.send(wire::encode(message));
  }

  void on_message(std::string_view text) {
    auto message = wire::decode_coordinator_message(text);
    if (!message) return record(event_kind::kWarning, message.error().message);
    reap();  // who is dead already did not end because of what this says
    handle(gang::DirectiveReceived{std::move(message->directive)});
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD) return on_child_signal();
    handle(gang::LeaveRequested{"the agent got " + signal_name(signal), signal});
  }

  void on_child_signal() {
    reap();
    if (killing_) workers_.kill_orphans();
    check_gone();
  }

  void reap() {
    const auto ended = workers_.reap();
    if (checkpoints_.pid() != 0 && workers_.bystander() == 0) checkpoints_.ended();
    if (ended.empty()) return;
    drain();
    const bool out_of_memory = oom_.fired();
    gang::WorkersEnded event{.generation = workers_.world().generation};
    for (const WorkerSet::Ended& end : ended) {
      event.exits.push_back(make_exit(end, out_of_memory));
      record_exit(workers_.workers()[end.index], event.exits.back());
    }
    handle(event);
  }

  gang::WorkerExit make_exit(const WorkerSet::Ended& end, bool out_of_memory) {
    const Worker& worker = workers_.workers()[end.index];
    const uint64_t generation = workers_.world().generation;
    gang::WorkerExit exit{.local_rank = worker.local_rank,
                          .rank = worker.rank,
                          .exit_code = end.child.exit_code,
                          .signal = end.child.signal,
                          .out_of_memory = out_of_memory && end.child.signal == SIGKILL,
                          .step = monitor_.last_step(worker.local_rank).value_or(gang::kNoStep),
                          .phase = monitor_.phase(workers_, worker.local_rank),
                          .exited_unix_ns = system_clock().unix_time_ns()};
    if (exit.failed()) {
      const FirstError error = read_first_error(run_.error_json(generation, worker.rank),
                                                run_.elastic_error_json(generation, worker.rank));
      exit.error = error.text;
      exit.error_unix_ns = error.unix_ns;
    }
    return exit;
  }

  void check_gone() {
    if (gone_told_ || !state_.has_workers() || !workers_.all_gone()) return;
    gone_told_ = true;
    drain();
    pump_.drain([this] {
      asio::post(io_, [this] { handle(gang::WorkersGone{workers_.world().generation}); });
    });
  }

  void arm_deadline() {
    const auto deadline = gang::next_deadline(state_);
    if (!deadline) return;
    deadline_timer_.expires_after(std::max(Duration(0), *deadline - system_clock().now()));
    deadline_timer_.async_wait([this](boost::system::error_code error) {
      if (!error) handle(gang::Tick{});
    });
  }

  void arm_drain() {
    drain_timer_.expires_after(injector_.active() ? Injector::kEvery : kDrainEvery);
    drain_timer_.async_wait([this](boost::system::error_code error) {
      if (error || leaving_) return;
      drain();
      inject();
      if (state_.has_workers()) arm_drain();
    });
  }

  void drain() {
    for (Event& event : monitor_.drain(workers_)) write(std::move(event));
    if (workers_.world().generation == 0) return;
    const Status seen =
        node_recorder_.look(run_.node_samples(workers_.world().node_rank), system_clock());
    if (!seen.ok()) record(event_kind::kWarning, seen.error().message);
  }

  void inject() {
    if (!injector_.active()) return;
    const auto last_step = [this](int local_rank) { return monitor_.last_step(local_rank); };
    for (const Injector::Done& done :
         injector_.check(workers_.world(), workers_.workers(), last_step, system_clock().now())) {
      write({.kind = std::string(event_kind::kInjected),
             .generation = workers_.world().generation,
             .rank = done.rank,
             .text = done.text});
      if (done.netcut_s) client_.drop_for(from_seconds(*done.netcut_s));
    }
  }

  void offer_port() {
    auto reserved = net::reserve_port();
    if (!reserved) return record(event_kind::kWarning, reserved.error().message);
    offered_port_ = std::move(reserved->socket);
    handle(gang::PortReserved{reserved->port});
  }

  void watch_parent() {
    parent_.start(spec_.parent_pid, [this] {
      handle(gang::LeaveRequested{
          fmt::format("the shanty run that started this agent (pid {}) died", spec_.parent_pid)});
    });
  }

  void open_events(int node_rank) {
    if (events_) return;
    auto writer = EventWriter::open(run_.node_events(node_rank), fmt::format("node-{}", node_rank));
    if (!writer) {
      fmt::print(stderr, "shanty agent: {}\n", writer.error().message);
      return;
    }
    events_.emplace(std::move(*writer));
    node_rank_ = node_rank;
    for (Event& event : std::exchange(early_events_, {})) write(std::move(event));
  }

  void write(Event event) {
    if (event.unix_ns == 0) event.unix_ns = system_clock().unix_time_ns();
    event.node_rank = node_rank_;
    if (!events_) {
      if (early_events_.size() < kMaxEarlyEvents) early_events_.push_back(std::move(event));
      return;
    }
    const Status status = events_->append(std::move(event));
    if (status.ok() || events_broken_) return;
    events_broken_ = true;
    fmt::print(stderr, "shanty agent: {}\n", status.error().message);
  }

  void record(std::string_view kind, std::string text) {
    write({.kind = std::string(kind),
           .generation = state_.world.generation,
           .text = std::move(text)});
  }

  // To the user too, who sees no event of a node that has no rank yet.
  void tell(std::string_view kind, const std::string& text) {
    record(kind, text);
    if (!events_) fmt::print(stderr, "shanty: {}\n", text);
  }

  void record_started() {
    std::string pids;
    for (const Worker& worker : workers_.workers()) {
      pids += fmt::format("{}{}", pids.empty() ? "" : ",", worker.pid);
    }
    const gang::World& world = workers_.world();
    write({.kind = std::string(event_kind::kWorkersStarted),
           .generation = world.generation,
           .text = fmt::format("started ranks {}-{} of generation {}", world.first_rank,
                               world.first_rank + world.local_size - 1, world.generation),
           .extra_json = fmt::format("{{\"pids\":[{}]}}", pids)});
  }

  void record_exit(const Worker& worker, const gang::WorkerExit& exit) {
    const std::string how = exit.signal != 0 ? "was ended by " + signal_name(exit.signal)
                                             : fmt::format("exited with {}", exit.exit_code);
    write({.kind = std::string(exit.failed() && !state_.kill_at ? event_kind::kWorkerFailed
                                                                : event_kind::kWorkerExited),
           .generation = workers_.world().generation,
           .rank = worker.rank,
           .text = fmt::format("rank {} (pid {}) {}{}", worker.rank, worker.pid, how,
                               exit.error.empty() ? "" : ": " + exit.error),
           .extra_json = fmt::format("{{\"code\":{},\"signal\":{},\"pid\":{}}}", exit.exit_code,
                                     exit.signal, worker.pid)});
  }

  const AgentSpec& spec_;
  RunDir run_;
  asio::io_context io_{1};
  gang::AgentState state_;
  LogPump pump_;
  CheckpointHost checkpoints_;
  WorkerSet workers_;
  Monitor monitor_;
  Injector injector_;
  OomWatch oom_;
  net::SignalWatch signals_;
  asio::steady_timer deadline_timer_;
  asio::steady_timer drain_timer_;
  asio::steady_timer silence_timer_;
  TimePoint silent_since_;
  NodeRecorder node_recorder_;
  net::ParentWatch parent_;
  gang::Report last_report_;
  std::string facts_;
  Fd master_port_;   // held while the workers of this generation may bind it
  Fd offered_port_;  // held for the next generation
  bool killing_ = false;
  bool gone_told_ = false;
  bool leaving_ = false;
  gang::Outcome outcome_ = gang::Outcome::kNone;
  int node_rank_ = -1;
  std::optional<EventWriter> events_;
  std::vector<Event> early_events_;
  bool events_broken_ = false;
  net::WsClient client_;
};

}  // namespace

int run_agent(const AgentSpec& spec) {
  raise_descriptor_limit();
  auto run = RunDir::open(spec.run_dir);
  if (!run) {
    fmt::print(stderr, "shanty agent: {}\n", run.error().message);
    return 3;
  }
  const auto lock = SharedLock::take(run->lock());
  const Status subreaper = become_subreaper();
  if (!lock.ok() || !subreaper.ok()) {
    fmt::print(stderr, "shanty agent: {}\n",
               lock.ok() ? subreaper.error().message : lock.error().message);
    return 3;
  }
  return AgentShell(spec, std::move(*run)).run();
}

}  // namespace shanty
