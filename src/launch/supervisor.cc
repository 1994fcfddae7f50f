#include "launch/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <set>

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/agent_spec.h"
#include "agent/checkpoint_host.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/signal_name.h"
#include "coordinator/coordinator_shell.h"
#include "coordinator/coordinator_spec.h"
#include "launch/stop_count.h"
#include "net/address.h"
#include "net/signal_watch.h"
#include "net/token_keeper.h"
#include "os/process.h"
#include "run/events.h"
#include "telemetry/report.h"

namespace shanty {
namespace {

namespace asio = boost::asio;

// A program that dies this often is not worth starting again.
constexpr size_t kMaxRespawns = 20;
constexpr Duration kRespawnWindow = std::chrono::seconds(60);
constexpr std::chrono::milliseconds kSweepEvery{5};
// One that has not ended by then waits for a device.
constexpr Duration kStrayLimit = std::chrono::seconds(60);
// One of another user may end by itself, as its parent did.
constexpr Duration kForeignStrayLimit = std::chrono::seconds(3);
constexpr Duration kQuickSweeps = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kSlowSweepEvery{100};
constexpr Duration kComebackDelay = std::chrono::seconds(8);
// An agent may have a checkpoint to finish.
constexpr Duration kAgentGoodbyeLimit = CheckpointHost::kFinishLimit + std::chrono::seconds(10);

std::vector<int> watched_signals(const RunConfig& config) {
  std::vector<int> signals = config.stop_signals;
  signals.push_back(SIGCHLD);
  return signals;
}

}  // namespace

class Supervisor::Impl {
 public:
  Impl(const RunConfig& config, const RunDir& run, std::string token)
      : config_(config),
        run_(run),
        token_(std::move(token)),
        signals_(io_, watched_signals(config)),
        timer_(io_),
        token_keeper_(io_) {}

  Result<SupervisorResult> run() {
    // Whoever became this program by exec, as the scripts of containers do, may have children.
    for (const pid_t pid : list_children()) not_ours_.insert(pid);
    program_ = TRY(own_executable());
    TRY_STATUS(become_subreaper());
    events_.emplace(TRY(EventWriter::open(run_.command_events(first_node()),
                                          fmt::format("command-{}", first_node()))));
    TRY_STATUS(choose_endpoint());
    signals_.start([this](int signal) { on_signal(signal); });
    if (config_.may_host || !config_.several_machines) TRY_STATUS(start_coordinator(false));
    for (const int node : config_.local_nodes) TRY_STATUS(start_agent(node));
    if (config_.several_machines) token_keeper_.start(token_query(config_));
    io_.run();
    if (!failure_.empty()) return Error{failure_};
    return SupervisorResult{exit_code_, hosted_, stops_.count() > 0};
  }

 private:
  int first_node() const { return std::max(0, config_.local_nodes.front()); }

  Status choose_endpoint() {
    endpoint_ = config_.endpoint;
    if (config_.several_machines) return {};
    // Held until the end, so that a coordinator that is started again gets the same port.
    auto reserved = TRY(net::reserve_port());
    port_ = std::move(reserved.socket);
    endpoint_ = {"127.0.0.1", reserved.port};
    return {};
  }

  double orphan_limit_s() const {
    return config_.replaceable ? config_.join_limit_s : AgentSpec{}.orphan_limit_s;
  }

  // A stop signal is for this node, not for the job.
  bool leaves_alone() const { return config_.replaceable && config_.several_machines; }

  // "": as the coordinator sees it. That is a loopback address where this machine's own name leads
  // to one; the others find it by the name under which they find the coordinator.
  std::string address() const {
    const bool is_host = config_.several_machines && config_.may_host && tls();
    if (!config_.local_addr.empty() || !is_host) return config_.local_addr;
    const auto here = net::resolve(endpoint_.host);
    const bool is_hidden = here.ok() && std::any_of(here->begin(), here->end(), net::is_loopback);
    return is_hidden ? endpoint_.host : "";
  }

  bool tls() const { return !net::is_loopback(endpoint_.host); }

  Status start_coordinator(bool recovering) {
    CoordinatorSpec spec{
        .run_dir = run_.path(),
        .host = tls() ? "" : endpoint_.host,
        .port = endpoint_.port,
        .tls = tls(),
        .token = token_,
        .parent_pid = ::getpid(),
        .replaceable = leaves_alone(),
        .node_count = config_.nodes,
        .max_restarts = config_.max_restarts,
        .restart_window_s = config_.restart_window_s,
        .restart_on_exit = config_.restart_on_exit,
        .join_limit_s = config_.join_limit_s,
        .agent_grace_s = config_.grace_s,
        .master_addr = config_.master_addr,
        .master_port = config_.master_port,
        .recovering = recovering,
        .stop_reason = stops_.count() > 0 ? "stopped by " + signal_name(stop_signal_) : "",
        .stop_signal = stop_signal_,
        .stop_signals = config_.stop_signals};
    coordinator_ = TRY(start_part("coordinator", encode_coordinator_spec(spec)));
    hosted_ = true;
    return {};
  }

  Status start_agent(int node) {
    AgentSpec spec{.run_dir = run_.path(),
                   .run_id = run_.info().run_id,
                   .wanted_node_rank = node,
                   .slots = config_.slots,
                   .nodes_here = static_cast<int>(config_.local_nodes.size()),
                   .coordinator_host = endpoint_.host,
                   .coordinator_port = endpoint_.port,
                   .tls = tls(),
                   .token = token_,
                   .address = address(),
                   .parent_pid = ::getpid(),
                   .command = config_.command,
                   .working_dir = config_.job.run.working_dir,
                   .env = job_environment(config_.job),
                   .python_dir = config_.hooks ? run_.python_dir() : "",
                   .elastic_run_id = config_.elastic_run_id,
                   .role = config_.role,
                   .elastic_max_restarts = config_.elastic_max_restarts,
                   .total_steps = config_.job.steps.value_or(0),
                   .direct_log_ranks = config_.direct_log_ranks,
                   .grace_s = config_.grace_s,
                   .orphan_limit_s = orphan_limit_s(),
                   .first_contact_limit_s = config_.join_limit_s,
                   .stop_signals = config_.stop_signals,
                   .injects = config_.injects};
    if (!config_.signals_to_handle.empty()) {
      spec.env.push_back("TORCHELASTIC_SIGNALS_TO_HANDLE=" + config_.signals_to_handle);
    }
    agents_[TRY(start_part("agent", encode_agent_spec(spec)))] = node;
    return {};
  }

  // Each part has a session of its own: Ctrl-C reaches this process only.
  Result<pid_t> start_part(const std::string& verb, const std::string& spec) {
    const Fd descriptor(TRY(make_spec_descriptor(spec)));
    return spawn({.argv = {program_, verb, "--spec-fd", std::to_string(descriptor.get())},
                  .this_program = true,
                  .env = current_environment(),
                  .inherited_fds = {descriptor.get()},
                  .new_session = true});
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD) return on_child_signal();
    on_stop_signal(signal);
  }

  void on_stop_signal(int signal) {
    const int count = stops_.take(system_clock().now());
    if (count == 0) return;
    if (count == 1) stop_signal_ = signal;
    record(event_kind::kStopping,
           count == 1
               ? fmt::format("got {0}: the ranks{1} get {0} and {2} s to end; once more kills them",
                             signal_name(signal), leaves_alone() ? " of this node" : "",
                             config_.grace_s)
               : fmt::format("got {} again: killing the ranks", signal_name(signal)));
    pass_on(count == 1 ? signal : SIGKILL);
    stops_.acted(system_clock().now());
  }

  void pass_on(int signal) {
    const bool by_coordinator = stops_.count() == 1 && coordinator_ > 0 && !leaves_alone();
    if (!by_coordinator) signal_agents(signal);
    if (coordinator_ > 0 && (by_coordinator || stops_.count() > 2)) ::kill(coordinator_, signal);
  }

  void signal_agents(int signal) {
    for (const auto& [pid, node] : agents_) ::kill(pid, signal);
  }

  void on_child_signal() {
    for (const ReapedChild& child : reap_children()) {
      not_ours_.erase(child.pid);
      if (child.pid == coordinator_) {
        on_coordinator_end(child);
      } else if (const auto agent = agents_.find(child.pid); agent != agents_.end()) {
        const int node = agent->second;
        agents_.erase(agent);
        on_agent_end(node, child);
      }
    }
    sweep();
  }

  void on_coordinator_end(const ReapedChild& child) {
    coordinator_ = 0;
    if (ending_) return;
    if (child.signal == 0 && child.exit_code == kExitAddressInUse && config_.several_machines) {
      hosted_ = false;  // another shanty run on this machine hosts the job
      return;
    }
    if (child.signal == 0 && child.exit_code <= 1) return end(child.exit_code);
    if (child.signal == 0) {
      failure_ = "the coordinator could not start; its reason is above";
      return end(3);
    }
    if (stops_.count() > 2) {
      return give_up("stopped by " + signal_name(stop_signal_) +
                     ", and the coordinator was killed before it could say how it ended");
    }
    if (!coordinator_budget_.allow(system_clock().now())) {
      return give_up("the coordinator was ended by " + signal_name(child.signal) +
                     " and is not started again");
    }
    record(event_kind::kCoordinatorRestarted,
           fmt::format("the coordinator (pid {}) was ended by {}; starting it again", child.pid,
                       signal_name(child.signal)));
    const Status started = start_coordinator(true);
    if (!started.ok()) give_up(started.error().message);
  }

  void on_agent_end(int node, const ReapedChild& child) {
    if (ending_) return;
    if (child.signal == 0) {
      if (!hosted_) {
        if (agents_.empty() && respawns_.empty()) end(child.exit_code);
      } else if (stops_.count() == 0) {
        bring_back_later(node);
      } else if (leaves_alone() && coordinator_ > 0) {
        // Killed, so that it tells nobody that the job is over: its successor finds the others.
        ::kill(coordinator_, SIGKILL);
        end(1);
      }
      return;
    }
    const std::string what = fmt::format("the agent of node {} (pid {}) was ended by {}", node,
                                         child.pid, signal_name(child.signal));
    if (stops_.count() > 0) {
      record(event_kind::kWarning, what);
      if (!hosted_) end(1);
      return;
    }
    if (!agent_budget_.allow(system_clock().now()))
      return give_up(what + " and is not started again");
    record(event_kind::kAgentRestarted, what + "; starting it again");
    respawns_.push_back(node);
  }

  // An agent leaves at the end of the job, just before the coordinator does. One that left earlier
  // (somebody sent it SIGTERM) is started again.
  void bring_back_later(int node) {
    left_.push_back(node);
    comeback_.emplace(io_);
    comeback_->expires_after(kComebackDelay);
    comeback_->async_wait([this](boost::system::error_code error) {
      if (error || ending_ || stops_.count() > 0) return;
      for (const int left : std::exchange(left_, {})) {
        if (!agent_budget_.allow(system_clock().now()))
          return give_up("an agent leaves as often as it is started");
        record(event_kind::kAgentRestarted,
               fmt::format("the agent of node {} left while the job goes on; starting it again",
                           left));
        respawns_.push_back(left);
      }
      sweep();
    });
  }

  // Descendants of dead agents are adopted by this process: they end before anything new starts.
  void sweep() {
    if (const Strays strays = kill_strays(); !strays.pids.empty()) return outwait(strays);
    strays_since_.reset();
    if (ending_) {
      if (coordinator_ == 0 && agents_.empty()) stop_loop();
      return;
    }
    for (const int node : std::exchange(respawns_, {})) {
      const Status started = start_agent(node);
      if (!started.ok()) return give_up(started.error().message);
    }
  }

  void stop_loop() {
    signals_.stop();
    token_keeper_.stop();
    if (goodbye_) goodbye_->cancel();
    if (comeback_) comeback_->cancel();
  }

  struct Strays {
    std::vector<pid_t> pids;
    bool all_foreign = true;  // this user may not kill them
  };

  Strays kill_strays() {
    Strays strays;
    for (const pid_t pid : list_children()) {
      if (pid == coordinator_ || agents_.contains(pid) || not_ours_.contains(pid)) continue;
      for (const pid_t descendant : list_descendants(pid)) ::kill(descendant, SIGKILL);
      if (::kill(pid, SIGKILL) == 0 || errno != EPERM) strays.all_foreign = false;
      strays.pids.push_back(pid);
    }
    return strays;
  }

  void outwait(const Strays& strays) {
    const TimePoint now = system_clock().now();
    if (!strays_since_) strays_since_ = now;
    const Duration waited = now - *strays_since_;
    if (waited >= (strays.all_foreign ? kForeignStrayLimit : kStrayLimit)) {
      leave_behind(strays.pids);
    }
    timer_.expires_after(waited < kQuickSweeps ? kSweepEvery : kSlowSweepEvery);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) on_child_signal();
    });
  }

  void leave_behind(const std::vector<pid_t>& strays) {
    std::string who;
    for (const pid_t pid : strays) {
      who += fmt::format("{}{}", who.empty() ? "" : ", ", pid);
      not_ours_.insert(pid);
    }
    const std::string what =
        fmt::format("the ranks left processes that do not end by SIGKILL: {}", who);
    if (!ending_) return give_up(what);
    record(event_kind::kWarning, what);
  }

  // The job is over here; agents that do not leave by themselves are told to, then killed.
  void end(int exit_code) {
    if (ending_) return;
    ending_ = true;
    exit_code_ = exit_code;
    respawns_.clear();
    asio::post(io_, [this] { on_child_signal(); });  // nobody may be left to send a signal
    if (agents_.empty()) return;
    goodbye_.emplace(io_);
    goodbye_->expires_after(kAgentGoodbyeLimit);
    goodbye_->async_wait([this](boost::system::error_code error) {
      if (!error) signal_agents(SIGKILL);
    });
    signal_agents(SIGTERM);
  }

  // The account of a job whose coordinator cannot give it.
  void give_up(const std::string& reason) {
    // Of a job that is hosted elsewhere no report is shown here.
    if (!hosted_) record(event_kind::kWarning, reason);
    record_end(stops_.count() > 0 ? "stopped" : "failed", reason);
    signal_agents(SIGTERM);
    if (coordinator_ > 0) ::kill(coordinator_, SIGKILL);
    const Status written =
        write_report(run_.report_json(), build_report(run_, system_clock().unix_time_ns()));
    if (!written.ok()) record(event_kind::kWarning, written.error().message);
    end(1);
  }

  void record(std::string_view kind, const std::string& text, std::string extra_json = "") {
    discard(events_->append({.unix_ns = system_clock().unix_time_ns(),
                             .kind = std::string(kind),
                             .node_rank = first_node(),
                             .text = text,
                             .extra_json = std::move(extra_json)}),
            "the job matters more than its record");
  }

  void record_end(const std::string& outcome, const std::string& reason) {
    const nlohmann::json extra = {{"outcome", outcome}, {"reason", reason}};
    record(event_kind::kEnded, reason,
           extra.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  const RunConfig& config_;
  const RunDir& run_;
  const std::string token_;
  std::string program_;
  asio::io_context io_{1};
  net::SignalWatch signals_;
  asio::steady_timer timer_;
  net::TokenKeeper token_keeper_;
  std::optional<asio::steady_timer> goodbye_;
  std::optional<EventWriter> events_;
  net::HostPort endpoint_;
  Fd port_;
  pid_t coordinator_ = 0;
  std::map<pid_t, int> agents_;  // node rank by pid
  std::set<pid_t> not_ours_;     // children to be left alone
  std::optional<TimePoint> strays_since_;
  std::vector<int> left_;  // nodes whose agent left by itself
  std::optional<asio::steady_timer> comeback_;
  std::vector<int> respawns_;  // nodes whose agent is to be started again
  Budget coordinator_budget_{kMaxRespawns, kRespawnWindow};
  Budget agent_budget_{kMaxRespawns, kRespawnWindow};
  StopCount stops_;
  int stop_signal_ = SIGTERM;  // the first of them
  bool hosted_ = false;
  bool ending_ = false;
  int exit_code_ = 1;
  std::string failure_;
};

Supervisor::Supervisor(const RunConfig& config, const RunDir& run, std::string token)
    : impl_(std::make_unique<Impl>(config, run, std::move(token))) {}
Supervisor::~Supervisor() = default;
Result<SupervisorResult> Supervisor::run() { return impl_->run(); }

}  // namespace shanty
