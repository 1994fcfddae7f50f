#include "follow/session.h"

#include <csignal>

#include <fmt/format.h>

#include "follow/agent_output.h"
#include "follow/log_streams.h"
#include "follow/show.h"
#include "text/terminal.h"

namespace shanty::follow {
namespace {

constexpr Duration kTickEvery = std::chrono::milliseconds(100);
// The rest of the logs after the job has ended.
constexpr Duration kDrainLimit = std::chrono::seconds(20);
// An exit code from here on means that something ended the pod, not the job.
constexpr int kFirstReplaceable = 128;

class Session {
 public:
  Session(kube::Client& client, FollowGoal goal, const WatchGoal& watch,
          const SessionOptions& options, const Interrupt& interrupt, std::stop_source& stop)
      : client_(client),
        interrupt_(interrupt),
        stop_(stop),
        follower_(std::move(goal)),
        show_(options),
        logs_(client, queue_, options.tail_lines, stop.get_token()),
        replacements_(options.replace, options.max_replacements),
        watches_(start_watches(client, watch, queue_, stop.get_token())) {}

  ~Session() {
    stop_.request_stop();
    watches_.clear();
  }

  SessionEnd run() {
    std::optional<TimePoint> drain_until;
    while (true) {
      for (Message& message : queue_.take(kTickEvery)) {
        std::visit([this](auto& each) { on(each); }, message);
      }
      if (!follower_.end() && !given_up_) give_up_on(replacements_.make_due(now()));
      show_.lines(follower_.on_tick(now()));
      show_progress();
      if (interrupt_.signal() != 0 || !problem_.empty()) break;
      if ((!follower_.end() && !given_up_) || !has_all_pods_) continue;
      if (!drain_until) drain_until = now() + kDrainLimit;
      logs_.end_all();
      if (logs_.all_over()) break;
      if (now() < *drain_until) continue;
      show_.trouble(
          fmt::format("the end of the logs did not come within {:.0f} s; shanty logs "
                      "shows it",
                      to_seconds(kDrainLimit)));
      break;
    }
    show_.finish();
    SessionEnd end{.job = follower_.end(), .problem = problem_};
    if (!end.job) end.job = given_up_;
    if (interrupt_.signal() != 0) end.job.reset();
    end.run_dir = run_dir_;
    end.run_dir_stays = run_dir_stays_;
    return end;
  }

 private:
  static TimePoint now() { return system_clock().now(); }

  void on(const PodSeen& seen) {
    show_.lines(follower_.on_pod(seen.pod, now()));
    logs_.on_pod(seen.pod);
    if (seen.pod.node_rank <= 0 && !seen.pod.run_dir.empty()) {
      run_dir_ = seen.pod.run_dir;
      run_dir_stays_ = seen.pod.run_dir_stays;
    }
    replace_if_dead(seen.pod);
  }
  void on(const PodGone& gone) {
    const auto pod = follower_.pods().find(gone.name);
    const bool is_done = pod == follower_.pods().end() || pod->second.phase == "Succeeded";
    show_.lines(follower_.on_pod_gone(gone.name));
    logs_.on_pod_gone(gone.name);
    if (!is_done) make_anew(gone.name);
  }
  void on(const PodsSynced&) { has_all_pods_ = true; }
  void on(const WorkloadSeen& seen) {
    workload_uid_ = seen.state.uid;
    show_.lines(follower_.on_workload(seen.state, now()));
    find_place_of_job();
  }
  void on(const WorkloadGone&) { show_.lines(follower_.on_workload_gone()); }
  void on(QueueSeen& seen) {
    queue_entries_ = std::move(seen.entries);
    find_place_of_job();
  }
  void on(const EventSeen& seen) { show_.lines(follower_.on_event(seen.event, seen.is_new)); }
  void on(const LogOver& over) { logs_.on_over(over.pod); }
  void on(const Trouble& trouble) { show_.trouble(trouble.text); }
  void on(const WatchOver& over) {
    if (over.is_vital) {
      problem_ = over.text;
    } else {
      show_.trouble(over.text);
    }
  }

  void on(const LogLine& log) {
    const OutputLine line = read_output_line(log.line);
    switch (line.from) {
      case OutputLine::From::kRank:
        show_.rank_line(log.pod, log.line);
        return show_.lines(follower_.on_rank_line(log.line));
      case OutputLine::From::kAgent:
        show_.agent_line(log.pod, log.line, line.text);
        return show_.lines(follower_.on_agent_line(line.text, now()));
      case OutputLine::From::kProgress:
        progress_ = line.text;
        return;
      case OutputLine::From::kRay:
        if (!line.text.empty()) show_.agent_line(log.pod, log.line, line.text);
        return;
      case OutputLine::From::kRanks:
        return;
    }
  }

  void find_place_of_job() {
    if (workload_uid_.empty()) return;
    const auto place = find_place(queue_entries_, workload_uid_);
    if (place) show_.lines(follower_.on_queue(*place));
  }

  // The agents' own line where they have one, already formatted.
  void show_progress() {
    if (progress_.empty() || !follower_.all_run()) {
      return show_.waiting(follower_.summary());
    }
    show_.progress(progress_);
  }

  // Bare pods.

  void replace_if_dead(const PodState& pod) {
    if (!replacements_.replaces() || pod.phase != "Failed" || pod.is_leaving) return;
    const ContainerState* trainer = pod.trainer();
    const bool by_itself = trainer != nullptr && trainer->phase == ContainerState::Phase::kEnded &&
                           trainer->exit_code < kFirstReplaceable;
    if (by_itself || follower_.end()) return;
    const auto kind = client_.kind("", "Pod");
    if (!kind.ok()) return show_.trouble(kind.error().message);
    const auto removed = client_.remove(
        {.kind = *kind, .k8s_namespace = client_.access().k8s_namespace, .name = pod.name});
    if (!removed.ok()) show_.trouble(removed.error().message);
  }

  void make_anew(const std::string& pod) {
    if (!replacements_.replaces() || follower_.end()) return;
    give_up_on(replacements_.want(pod, now()));
  }

  void give_up_on(const Status& status) {
    if (!status.ok()) given_up_ = JobEnd{.exit_code = 1, .text = status.error().message};
  }

  kube::Client& client_;
  const Interrupt& interrupt_;
  std::stop_source& stop_;
  MessageQueue queue_;
  Follower follower_;
  Show show_;
  LogStreams logs_;
  Replacements replacements_;
  std::vector<std::jthread> watches_;
  std::vector<QueueEntry> queue_entries_;
  std::string workload_uid_;
  std::string progress_;
  bool has_all_pods_ = false;
  std::string run_dir_;
  bool run_dir_stays_ = false;
  std::string problem_;
  std::optional<JobEnd> given_up_;  // on bare pods
};

}  // namespace

SessionEnd follow_job(const ClusterChoice& cluster, const FollowGoal& goal, const WatchGoal& watch,
                      const SessionOptions& options, const Interrupt& interrupt) {
  // Its own client, so that the end of following ends all its requests and none of others.
  std::stop_source stop;
  const std::stop_callback interrupted(interrupt.token(), [&stop] { stop.request_stop(); });
  const auto client = connect(cluster, stop.get_token());
  if (!client.ok()) return {.problem = client.error().message};
  return Session(**client, goal, watch, options, interrupt, stop).run();
}

}  // namespace shanty::follow
