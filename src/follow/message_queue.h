#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "follow/cluster_event.h"
#include "follow/pod_state.h"
#include "follow/workload.h"

namespace shanty::follow {

// What the threads that watch and read have to say to the one that shows.
struct PodSeen {
  PodState pod;
};
struct PodGone {
  std::string name;
};
struct PodsSynced {};  // all pods that were there have been told
struct WorkloadSeen {
  WorkloadState state;
};
struct WorkloadGone {};
struct QueueSeen {
  std::vector<QueueEntry> entries;
};
struct EventSeen {
  ClusterEvent event;
  bool is_new = false;
};
struct LogLine {
  std::string pod;
  std::string line;
};
struct LogOver {
  std::string pod;
};
struct Trouble {
  std::string text;
};
// A watch has ended for good.
struct WatchOver {
  std::string text;
  bool is_vital = false;
};
using Message = std::variant<PodSeen, PodGone, PodsSynced, WorkloadSeen, WorkloadGone, QueueSeen,
                             EventSeen, LogLine, LogOver, Trouble, WatchOver>;

// Any thread. A reader that is slow makes the writers wait.
class MessageQueue {
 public:
  static constexpr size_t kMaxMessages = 4096;

  void push(Message message, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!has_room_.wait(lock, stop, [this] { return messages_.size() < kMaxMessages; })) return;
    messages_.push_back(std::move(message));
    has_some_.notify_one();
  }

  // All there is; waits up to `limit` for the first.
  std::deque<Message> take(Duration limit) {
    std::unique_lock lock(mutex_);
    has_some_.wait_for(lock, limit, [this] { return !messages_.empty(); });
    has_room_.notify_all();
    return std::exchange(messages_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_some_;
  std::condition_variable_any has_room_;
  std::deque<Message> messages_;
};

}  // namespace shanty::follow
