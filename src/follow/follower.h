#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "follow/cluster_event.h"
#include "follow/first_minute.h"
#include "follow/pod_state.h"
#include "follow/workload.h"

namespace shanty::follow {

// Something to tell the user: a kind for programs, a sentence for people.
struct Line {
  std::string kind;
  std::string text;
  std::string pod;  // "" = of none
  friend bool operator==(const Line&, const Line&) = default;
};
using Lines = std::vector<Line>;

// How a followed job ended.
struct JobEnd {
  int exit_code = 0;  // the job's own
  std::string text;
};

struct FollowGoal {
  std::string job;         // as labels call it
  uint64_t pods = 0;       // that make the job whole; 0 = not known
  bool bare_pods = false;  // there is no other object that says how it ends
};

// Makes sentences of what a cluster tells of one job: its place in the queue, why pods wait, what
// they pull, when they run, how they end, and the three questions of its first minute. Pure; hears
// objects in any order and as often as they come. One thread.
class Follower {
 public:
  // Ordinary sentences about single pods, per kind: a job of 1000 pods does not get 3000.
  static constexpr size_t kMaxOrdinaryLines = 16;
  static constexpr size_t kMaxEarlyEvents = 256;
  static constexpr size_t kMaxRemembered = 4096;
  // What pods wait for is told when it has not changed for so long.
  static constexpr Duration kSettled = std::chrono::seconds(2);

  explicit Follower(FollowGoal goal) : goal_(std::move(goal)), first_minute_(0) {}

  Lines on_workload(const WorkloadState& state, TimePoint now);
  Lines on_workload_gone();
  Lines on_queue(const QueuePlace& place);
  Lines on_pod(const PodState& pod, TimePoint now);
  Lines on_pod_gone(const std::string& name);
  // `is_new`: it was not there when following began.
  Lines on_event(const ClusterEvent& event, bool is_new);
  Lines on_agent_line(std::string_view text, TimePoint now);
  Lines on_rank_line(std::string_view line);
  Lines on_tick(TimePoint now);

  // What the job is about, for a line that is redrawn: "1 of 2 pods runs, train-1-x pulls ...".
  std::string summary() const;
  bool all_run() const { return all_run_; }
  const std::map<std::string, PodState>& pods() const { return pods_; }
  const std::optional<JobEnd>& end() const { return end_; }

 private:
  enum class Stage { kNew, kWaiting, kPlaced, kStarting, kRunning, kEnded };
  struct Seen {
    Stage stage = Stage::kNew;
    std::string trouble;  // the last one told
    int restarts = 0;
    bool is_leaving = false;
  };

  static Stage stage_of(const PodState& pod);
  void tell(Lines& out, std::string kind, std::string text, const std::string& pod = "");
  void tell_ordinary(Lines& out, std::string kind, std::string text, const std::string& pod);
  void tell_first_minute(Lines& out, std::vector<std::string> answers);
  void look_at_stage(const PodState& pod, Seen& seen, Lines& out);
  void look_at_troubles(const PodState& pod, Seen& seen, Lines& out);
  void look_at_all(Lines& out);
  void look_at_bare_end();
  Lines about_pod(const ClusterEvent& event, const PodState& pod);
  std::string waiting_text() const;
  std::optional<int> own_exit_code() const;
  size_t running() const;
  uint64_t wanted() const;

  FollowGoal goal_;
  FirstMinute first_minute_;
  std::map<std::string, PodState> pods_;  // by name
  std::map<std::string, Seen> seen_;      // by uid
  std::map<int, std::string> holders_;    // node rank -> uid of the pod that had it last
  std::map<int, int> exit_codes_;         // node rank -> how its last pod ended
  std::deque<ClusterEvent> early_;        // about pods that are not known yet
  std::set<std::string> told_;            // events
  std::map<std::string, size_t> ordinary_;
  std::string workload_uid_;
  std::string workload_kind_;
  bool was_suspended_ = false;
  std::optional<QueuePlace> place_;
  std::string waiting_;
  std::string waiting_told_;
  TimePoint waiting_since_;
  bool all_run_ = false;
  std::optional<JobEnd> end_;
};

}  // namespace shanty::follow
