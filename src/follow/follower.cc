#include "follow/follower.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "text/words.h"

namespace shanty::follow {
namespace {

using Phase = ContainerState::Phase;

constexpr size_t kMaxShownNodes = 8;
// The agent's exit codes up to here are its word on the job; see docs/exit-codes.md.
constexpr int kLastOwnCode = 3;

bool is_trouble(const std::string& reason) {
  static constexpr std::string_view kQuiet[] = {"", "ContainerCreating", "PodInitializing",
                                                "Completed"};
  return std::ranges::find(kQuiet, reason) == std::end(kQuiet);
}

std::string with_detail(const std::string& reason, const std::string& message) {
  if (reason.empty()) return message;
  return message.empty() ? reason : reason + ": " + message;
}

std::string gpus_text(const PodState& pod) {
  if (pod.gpus == 0) return "no GPUs asked for";
  return fmt::format("{} x {}", pod.gpus, pod.gpu_resource);
}

std::string end_text(const PodState& pod) {
  if (!pod.reason.empty()) return with_detail(pod.reason, pod.message);
  for (const ContainerState& container : pod.containers) {
    if (container.phase != Phase::kEnded || container.exit_code == 0) continue;
    std::string text = fmt::format("{} exited with {}", container.name, container.exit_code);
    if (!container.reason.empty() && container.reason != "Error") {
      text += " (" + container.reason + ")";
    }
    return text;
  }
  return with_detail("", pod.message);
}

}  // namespace

void Follower::tell(Lines& out, std::string kind, std::string text, const std::string& pod) {
  out.push_back({.kind = std::move(kind), .text = std::move(text), .pod = pod});
}

void Follower::tell_ordinary(Lines& out, std::string kind, std::string text,
                             const std::string& pod) {
  const size_t told = ++ordinary_[kind];
  if (told <= kMaxOrdinaryLines) return tell(out, std::move(kind), std::move(text), pod);
  if (told == kMaxOrdinaryLines + 1) tell(out, std::move(kind), "... and more pods, like these");
}

void Follower::tell_first_minute(Lines& out, std::vector<std::string> answers) {
  for (std::string& answer : answers) tell(out, "first_minute", std::move(answer));
}

size_t Follower::running() const {
  return static_cast<size_t>(std::ranges::count_if(pods_, [](const auto& entry) {
    return stage_of(entry.second) == Stage::kRunning && !entry.second.is_leaving &&
           !entry.second.is_helper;
  }));
}

uint64_t Follower::wanted() const {
  const auto nodes =
      std::ranges::count_if(pods_, [](const auto& entry) { return !entry.second.is_helper; });
  return std::max(goal_.pods, static_cast<uint64_t>(nodes));
}

Follower::Stage Follower::stage_of(const PodState& pod) {
  if (pod.has_ended()) return Stage::kEnded;
  const ContainerState* trainer = pod.trainer();
  if (trainer != nullptr && trainer->phase == Phase::kRunning) return Stage::kRunning;
  if (pod.node.empty()) return Stage::kWaiting;
  const bool starts = std::ranges::any_of(
      pod.containers, [](const ContainerState& c) { return c.phase != Phase::kWaiting; });
  return starts ? Stage::kStarting : Stage::kPlaced;
}

// The object that makes the pods.

Lines Follower::on_workload(const WorkloadState& state, TimePoint) {
  Lines out;
  workload_uid_ = state.uid;
  workload_kind_ = state.kind;
  if (state.is_suspended != was_suspended_) {
    was_suspended_ = state.is_suspended;
    if (state.is_suspended && state.queue.empty()) {
      tell(out, "suspended",
           fmt::format("{} {} is suspended: it has no pods until its field suspend is false again",
                       state.kind, state.name));
      if (!seen_.empty() && !end_) end_ = JobEnd{.exit_code = 1, .text = "the job was stopped"};
    }
  }
  if (state.outcome == WorkloadState::Outcome::kOpen || end_) return out;
  const bool good = state.outcome == WorkloadState::Outcome::kSucceeded;
  const std::string why = good ? "" : with_detail(state.reason, state.message);
  end_ = JobEnd{.exit_code = good ? 0 : own_exit_code().value_or(1),
                .text = fmt::format("{} {} {}{}", state.kind, state.name,
                                    good ? "succeeded" : "failed", why.empty() ? "" : ": " + why)};
  return out;
}

Lines Follower::on_workload_gone() {
  if (!end_) end_ = JobEnd{.exit_code = 1, .text = "the job was removed"};
  return {};
}

Lines Follower::on_queue(const QueuePlace& place) {
  Lines out;
  if (place_ == place) return out;
  const bool was_told_admitted = place_ && place_->is_admitted;
  const bool only_why = place_ && place_->position == place.position &&
                        place_->waiting == place.waiting && place_->why == place.why;
  place_ = place;
  if (place.is_kept_out) {
    if (!end_) end_ = JobEnd{.exit_code = 1, .text = "the job was stopped: Kueue keeps it out"};
  } else if (place.is_admitted) {
    if (!was_told_admitted) tell(out, "admitted", "queue " + place.queue + " has let the job in");
  } else if (!only_why || was_told_admitted) {
    tell(out, "queued",
         fmt::format("the job is number {} of {} that wait in queue {}{}", place.position,
                     place.waiting, place.queue, place.why.empty() ? "" : ": " + place.why));
  }
  return out;
}

// The exit code of the node that hosts the job's account, when it is the agent's own word.
std::optional<int> Follower::own_exit_code() const {
  const auto first = exit_codes_.find(0);
  if (first != exit_codes_.end() && first->second >= 1 && first->second <= kLastOwnCode) {
    return first->second;
  }
  for (const auto& [rank, code] : exit_codes_) {
    if (code >= 1 && code <= kLastOwnCode) return code;
  }
  return std::nullopt;
}

// Pods.

Lines Follower::on_pod(const PodState& pod, TimePoint now) {
  Lines out;
  if (seen_.size() >= kMaxRemembered) {
    std::erase_if(seen_, [&](const auto& entry) {
      return std::ranges::none_of(
          pods_, [&](const auto& known) { return known.second.uid == entry.first; });
    });
  }
  const bool is_known = seen_.contains(pod.uid);
  Seen& seen = seen_[pod.uid];
  pods_[pod.name] = pod;
  const std::string former = std::exchange(holders_[pod.node_rank], pod.uid);
  if (!is_known && pod.node_rank >= 0 && !former.empty() && former != pod.uid) {
    tell(out, "pod_replaced",
         fmt::format("pod {} is the new node {} of the job", pod.name, pod.node_rank), pod.name);
  }
  if (pod.is_leaving && !seen.is_leaving && !pod.has_ended() && !end_) {
    tell(out, "pod_leaving", fmt::format("pod {} is being deleted", pod.name), pod.name);
  }
  seen.is_leaving = pod.is_leaving;
  look_at_troubles(pod, seen, out);
  look_at_stage(pod, seen, out);
  if (!is_known) {
    const auto about = [&](const ClusterEvent& event) { return event.about_uid == pod.uid; };
    for (const ClusterEvent& event : early_) {
      if (!about(event)) continue;
      for (Line& line : about_pod(event, pod)) out.push_back(std::move(line));
    }
    std::erase_if(early_, about);
  }
  look_at_all(out);
  look_at_bare_end();
  std::string waiting = waiting_text();
  if (waiting != waiting_) {
    waiting_ = std::move(waiting);
    waiting_since_ = now;
  }
  return out;
}

void Follower::look_at_stage(const PodState& pod, Seen& seen, Lines& out) {
  const Stage stage = stage_of(pod);
  const Stage before = std::exchange(seen.stage, stage);
  if (stage == before) return;
  const bool first_with_place = before == Stage::kNew || before == Stage::kWaiting;
  if (first_with_place && (stage == Stage::kPlaced || stage == Stage::kStarting)) {
    tell_ordinary(out, "pod_placed", fmt::format("pod {} goes to node {}", pod.name, pod.node),
                  pod.name);
  } else if (stage == Stage::kRunning) {
    tell_ordinary(out, "pod_running",
                  fmt::format("pod {} runs on node {} ({})", pod.name, pod.node, gpus_text(pod)),
                  pod.name);
  } else if (stage == Stage::kEnded) {
    const ContainerState* trainer = pod.trainer();
    const bool ended = trainer != nullptr && trainer->phase == Phase::kEnded;
    exit_codes_[pod.node_rank] = ended ? trainer->exit_code : pod.phase == "Succeeded" ? 0 : 128;
    if (pod.phase == "Succeeded") {
      tell_ordinary(out, "pod_succeeded", fmt::format("pod {} is done", pod.name), pod.name);
    } else {
      tell(out, "pod_failed", fmt::format("pod {} failed: {}", pod.name, end_text(pod)), pod.name);
    }
  }
}

// What keeps containers from running, and restarts in place.
void Follower::look_at_troubles(const PodState& pod, Seen& seen, Lines& out) {
  for (const ContainerState& container : pod.containers) {
    if (container.phase == Phase::kWaiting && is_trouble(container.reason)) {
      // The kubelet's back-off changes reason and message back and forth.
      const std::string trouble = container.name + container.image;
      if (seen.trouble == trouble) continue;
      seen.trouble = trouble;
      tell(out, "pod_trouble",
           fmt::format("pod {} cannot start {} on node {}: {}", pod.name, container.name, pod.node,
                       with_detail(container.reason, container.message)),
           pod.name);
    }
    if (container.is_init && container.phase == Phase::kEnded && container.exit_code != 0) {
      tell_ordinary(out, "init_failed",
                    fmt::format("pod {}: init container {} exited with {}", pod.name,
                                container.name, container.exit_code),
                    pod.name);
    }
  }
  const ContainerState* trainer = pod.trainer();
  if (trainer == nullptr || trainer->restarts <= seen.restarts) return;
  seen.restarts = trainer->restarts;
  tell(out, "pod_restarted",
       fmt::format("pod {} was restarted in place, for the {}. time", pod.name, trainer->restarts),
       pod.name);
}

// The first of the three questions: do all run, with their GPUs?
void Follower::look_at_all(Lines& out) {
  if (all_run_ || goal_.pods == 0 || running() < goal_.pods) return;
  all_run_ = true;
  uint64_t gpus = 0;
  std::string resource;
  std::set<std::string> nodes;
  for (const auto& [name, pod] : pods_) {
    if (stage_of(pod) != Stage::kRunning || pod.is_helper) continue;
    gpus += pod.gpus;
    if (!pod.gpu_resource.empty()) resource = pod.gpu_resource;
    nodes.insert(pod.node);
  }
  first_minute_.set_gpus(gpus);
  std::vector<std::string> shown(nodes.begin(), nodes.end());
  if (shown.size() > kMaxShownNodes) shown.resize(kMaxShownNodes);
  tell(out, "first_minute",
       fmt::format(
           "pods: {} of {} run, {}, on {}: {}{}", goal_.pods, goal_.pods,
           gpus == 0 ? "which ask for no GPUs" : fmt::format("with {} x {} in all", gpus, resource),
           counted(nodes.size(), "node"), fmt::join(shown, ", "),
           shown.size() < nodes.size() ? ", ..." : ""));
}

// Bare pods have nobody who says how their job ends: node 0 hosts its account.
void Follower::look_at_bare_end() {
  if (!goal_.bare_pods || end_ || pods_.empty()) return;
  const auto code = own_exit_code();
  if (code) {
    end_ = JobEnd{.exit_code = *code, .text = "the job failed"};
    return;
  }
  const auto done =
      std::ranges::count_if(exit_codes_, [](const auto& entry) { return entry.second == 0; });
  if (static_cast<uint64_t>(done) >= std::max<uint64_t>(goal_.pods, 1)) {
    end_ = JobEnd{.exit_code = 0, .text = "all pods are done"};
  }
}

Lines Follower::on_pod_gone(const std::string& name) {
  Lines out;
  const auto found = pods_.find(name);
  if (found == pods_.end()) return out;
  if (!found->second.has_ended() && !end_) {
    tell(out, "pod_gone", fmt::format("pod {} is gone", name), name);
  }
  pods_.erase(found);
  return out;
}

// Events.

Lines Follower::on_event(const ClusterEvent& event, bool is_new) {
  Lines out;
  const std::string key = event.about_uid + " " + event.reason + " " + event.message;
  if (told_.size() >= kMaxRemembered) told_.clear();
  if (!told_.insert(key).second) return out;
  if (event.about_kind == "Pod") {
    const auto pod = std::ranges::find_if(
        pods_, [&](const auto& entry) { return entry.second.uid == event.about_uid; });
    if (pod != pods_.end()) return about_pod(event, pod->second);
    early_.push_back(event);
    if (early_.size() > kMaxEarlyEvents) early_.pop_front();
    return out;
  }
  // Of objects that were made of the job's, only names are known.
  const bool is_ours =
      event.about_uid == workload_uid_ ||
      (is_new && (event.about_name == goal_.job || event.about_name.starts_with(goal_.job + "-")));
  if (is_ours && event.is_warning) {
    tell(out, "warning",
         fmt::format("{} {}: {}", event.about_kind, event.about_name,
                     with_detail(event.reason, event.message)));
  }
  return out;
}

Lines Follower::about_pod(const ClusterEvent& event, const PodState& pod) {
  Lines out;
  const std::string node = event.host.empty() ? pod.node : event.host;
  const std::string image = pulled_image(event.message);
  if (event.reason == "Pulling") {
    tell_ordinary(out, "pulling", fmt::format("node {} pulls {} for pod {}", node, image, pod.name),
                  pod.name);
  } else if (event.reason == "Pulled") {
    const std::string took = pull_time(event.message);
    if (!took.empty()) {
      tell_ordinary(out, "pulled", fmt::format("node {} has pulled {} in {}", node, image, took),
                    pod.name);
    }
  } else if (event.reason == "FailedMount" || event.reason == "FailedAttachVolume" ||
             event.reason == "Preempted" || event.reason == "Evicted" ||
             event.reason == "FailedCreatePodSandBox" || event.reason == "NodeNotReady") {
    tell(out, "pod_trouble", fmt::format("pod {}: {}: {}", pod.name, event.reason, event.message),
         pod.name);
  }
  return out;
}

// The job's own output.

Lines Follower::on_agent_line(std::string_view text, TimePoint now) {
  Lines out;
  tell_first_minute(out, first_minute_.on_agent_line(text, now));
  return out;
}

Lines Follower::on_rank_line(std::string_view line) {
  Lines out;
  tell_first_minute(out, first_minute_.on_rank_line(line));
  return out;
}

Lines Follower::on_tick(TimePoint now) {
  Lines out;
  tell_first_minute(out, first_minute_.on_tick(now));
  if (waiting_ != waiting_told_ && now - waiting_since_ >= kSettled) {
    waiting_told_ = waiting_;
    if (!waiting_.empty()) tell(out, "waiting", waiting_);
  }
  return out;
}

// "2 pods have no place yet: 0/4 nodes are available: ..."
std::string Follower::waiting_text() const {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [name, pod] : pods_) {
    if (stage_of(pod) != Stage::kWaiting || pod.is_leaving) continue;
    by_reason[pod.is_gated ? "held back by a scheduling gate" : pod.no_place_why].push_back(name);
  }
  std::string out;
  for (const auto& [why, names] : by_reason) {
    if (why.empty()) continue;  // the scheduler has not looked yet
    const std::string who = names.size() == 1 ? "pod " + names.front() + " has"
                                              : fmt::format("{} pods have", names.size());
    out += fmt::format("{}{} no place yet: {}", out.empty() ? "" : "; ", who, why);
  }
  return out;
}

std::string Follower::summary() const {
  if (place_ && !place_->is_admitted) {
    return fmt::format("number {} of {} in queue {}", place_->position, place_->waiting,
                       place_->queue);
  }
  const size_t run = running();
  std::string text = fmt::format("{} of {} run", run, counted(wanted(), "pod"));
  for (const auto& [name, pod] : pods_) {
    const Stage stage = stage_of(pod);
    if (stage == Stage::kRunning || stage == Stage::kEnded) continue;
    const std::string what = stage == Stage::kWaiting  ? "has no place yet"
                             : stage == Stage::kPlaced ? "gets its image and volumes on " + pod.node
                                                       : "starts on " + pod.node;
    return text + ", " + name + " " + what;
  }
  return text;
}

}  // namespace shanty::follow
