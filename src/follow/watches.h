#pragma once

#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "follow/message_queue.h"
#include "kube/client.h"

namespace shanty::follow {

struct WatchGoal {
  std::string job;
  std::string workload_group;  // with `workload_kind` "": bare pods
  std::string workload_kind;
  bool queue = false;  // Kueue's too
};

// Watches the objects of one job, each on a thread of its own, until `stop`. Without the right to
// see events or the queue it goes on without them and says so.
std::vector<std::jthread> start_watches(kube::Client& client, const WatchGoal& goal,
                                        MessageQueue& queue, const std::stop_token& stop);

}  // namespace shanty::follow
