#include "follow/watches.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "follow/labels.h"
#include "kube/watch.h"
#include "text/json_fields.h"

namespace shanty::follow {
namespace {

using kube::Client;
using kube::WatchType;
using nlohmann::json;

std::string name_of(const json& object) {
  const json* metadata = json_object(object, "metadata");
  return metadata == nullptr ? "" : json_string(*metadata, "name");
}

// Runs one watch to its end and says why it ended.
class Watch {
 public:
  Watch(Client& client, MessageQueue& queue, std::stop_token stop)
      : client_(client), queue_(queue), stop_(std::move(stop)) {}

  void run(const std::string& group, const std::string& kind, const std::string& labels,
           const std::string& fields, bool is_vital, kube::WatchHandlers handlers) {
    const auto served = client_.kind(group, kind);
    if (!served.ok()) return over(served.error(), is_vital);
    kube::WatchOptions options{.k8s_namespace = client_.access().k8s_namespace};
    options.list.label_selector = labels;
    options.list.field_selector = fields;
    handlers.on_trouble = [this](const kube::ApiError& error) {
      say(Trouble{error.message + "; trying again"});
    };
    const auto ended = kube::follow(client_, *served, options, handlers, stop_);
    if (!ended.ok() && !stop_.stop_requested()) over(ended.error(), is_vital);
  }

  void say(Message message) { queue_.push(std::move(message), stop_); }

 private:
  void over(const kube::ApiError& error, bool is_vital) {
    say(WatchOver{.text = error.message, .is_vital = is_vital});
  }

  Client& client_;
  MessageQueue& queue_;
  const std::stop_token stop_;
};

// Notices what has gone while nobody watched: what is known and not in the new list.
class Presence {
 public:
  void reset() { listed_.clear(); }
  void seen(const std::string& name) {
    listed_.insert(name);
    known_.insert(name);
  }
  void gone(const std::string& name) { known_.erase(name); }
  std::vector<std::string> missing() {
    std::vector<std::string> out;
    std::ranges::set_difference(known_, listed_, std::back_inserter(out));
    known_ = listed_;
    return out;
  }

 private:
  std::set<std::string> known_;
  std::set<std::string> listed_;
};

void watch_pods(Watch watch, const WatchGoal& goal) {
  Presence presence;
  watch.run("", "Pod", selector_of_job(goal.job), "", true,
            {.on_reset = [&] { presence.reset(); },
             .on_object =
                 [&](WatchType type, const json& object) {
                   auto pod = read_pod(object);
                   if (!pod) return;
                   if (type == WatchType::kDeleted) {
                     presence.gone(pod->name);
                     return watch.say(PodGone{pod->name});
                   }
                   presence.seen(pod->name);
                   watch.say(PodSeen{std::move(*pod)});
                 },
             .on_synced =
                 [&] {
                   for (std::string& name : presence.missing()) watch.say(PodGone{std::move(name)});
                   watch.say(PodsSynced{});
                 },
             .on_trouble = {}});
}

void watch_workload(Watch watch, const WatchGoal& goal) {
  Presence presence;
  watch.run(goal.workload_group, goal.workload_kind, selector_of_job(goal.job), "", true,
            {.on_reset = [&] { presence.reset(); },
             .on_object =
                 [&](WatchType type, const json& object) {
                   json typed = object;
                   typed["apiVersion"] = goal.workload_group + "/v1";
                   typed["kind"] = goal.workload_kind;
                   auto state = read_workload(typed);
                   if (!state) return;
                   if (type == WatchType::kDeleted) {
                     presence.gone(state->name);
                     return watch.say(WorkloadGone{});
                   }
                   presence.seen(state->name);
                   watch.say(WorkloadSeen{std::move(*state)});
                 },
             .on_synced =
                 [&] {
                   if (!presence.missing().empty()) watch.say(WorkloadGone{});
                 },
             .on_trouble = {}});
}

void watch_queue(Watch watch) {
  std::map<std::string, QueueEntry> entries;
  bool is_synced = false;
  const auto tell = [&] {
    QueueSeen seen;
    for (const auto& [name, entry] : entries) seen.entries.push_back(entry);
    watch.say(std::move(seen));
  };
  watch.run("kueue.x-k8s.io", "Workload", "", "", false,
            {.on_reset =
                 [&] {
                   entries.clear();
                   is_synced = false;
                 },
             .on_object =
                 [&](WatchType type, const json& object) {
                   const std::string name = name_of(object);
                   if (type == WatchType::kDeleted) {
                     entries.erase(name);
                   } else if (auto entry = read_queue_entry(object)) {
                     entries[name] = std::move(*entry);
                   }
                   if (is_synced) tell();
                 },
             .on_synced =
                 [&] {
                   is_synced = true;
                   tell();
                 },
             .on_trouble = {}});
}

void watch_events(Watch watch) {
  bool is_synced = false;
  watch.run("", "Event", "", "", false,
            {.on_reset = {},
             .on_object =
                 [&](WatchType type, const json& object) {
                   if (type == WatchType::kDeleted) return;
                   if (auto event = read_event(object)) {
                     watch.say(EventSeen{.event = std::move(*event), .is_new = is_synced});
                   }
                 },
             .on_synced = [&] { is_synced = true; },
             .on_trouble = {}});
}

}  // namespace

std::vector<std::jthread> start_watches(Client& client, const WatchGoal& goal, MessageQueue& queue,
                                        const std::stop_token& stop) {
  const Watch watch(client, queue, stop);
  std::vector<std::jthread> threads;
  threads.emplace_back([=] { watch_pods(watch, goal); });
  threads.emplace_back([=] { watch_events(watch); });
  if (!goal.workload_kind.empty()) threads.emplace_back([=] { watch_workload(watch, goal); });
  if (goal.queue) threads.emplace_back([=] { watch_queue(watch); });
  return threads;
}

}  // namespace shanty::follow
