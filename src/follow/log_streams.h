#pragma once

#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "follow/message_queue.h"
#include "follow/pod_state.h"
#include "kube/client.h"

namespace shanty::follow {

// Reads the logs of a job's pods as they come, each on a thread of its own. Called by one thread.
//
// With run directories on a shared claim the pod of node 0 shows the output of all ranks, and only
// its log is read; else each pod shows its own.
class LogStreams {
 public:
  // More pods than these are not read; the rest is in `shanty logs`.
  static constexpr size_t kMaxStreams = 64;

  // `tail_lines`: of logs that are there when their pods are first seen only so many last lines;
  // 0 = all.
  LogStreams(kube::Client& client, MessageQueue& queue, uint64_t tail_lines, std::stop_token stop);
  ~LogStreams();

  // Starts or ends reading as this pod needs.
  void on_pod(const PodState& pod);
  void on_pod_gone(const std::string& name);
  // Nothing more will be printed: each log is read to its end.
  void end_all();
  // The message LogOver came.
  void on_over(const std::string& name) { open_.erase(name); }
  bool all_over() const { return open_.empty(); }

 private:
  struct Stream;
  bool wants(const PodState& pod) const;
  void read(Stream& stream);

  kube::Client& client_;
  MessageQueue& queue_;
  const uint64_t tail_lines_;
  const std::stop_token stop_;
  std::map<std::string, std::unique_ptr<Stream>> streams_;  // by uid
  std::set<std::string> open_;                              // names
  std::set<std::string> new_;                               // uids, seen before any output
};

// The pods whose logs hold all output of a job, by node rank.
std::vector<PodState> pods_to_read(const std::vector<PodState>& pods);

}  // namespace shanty::follow
