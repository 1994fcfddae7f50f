#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace shanty::follow {

// How a job stands, as the object says from which its pods are made.
struct WorkloadState {
  enum class Outcome { kOpen, kSucceeded, kFailed };

  std::string group;
  std::string kind;  // "Job", "PyTorchJob", ...
  std::string name;
  std::string uid;
  std::string job;  // label shanty.dev/job
  Outcome outcome = Outcome::kOpen;
  std::string reason;  // of the outcome: "BackoffLimitExceeded"
  std::string message;
  bool is_suspended = false;  // it makes no pods for now
  bool is_leaving = false;    // deleted, but still there
  std::string queue;          // Kueue's LocalQueue; "" = none
  int64_t created_unix_s = 0;
};

// A kind of object that can be a job, in the order in which they are looked for.
struct WorkloadKind {
  std::string_view group;
  std::string_view kind;
  // The field that stops it while the object stays, as a JSON pointer; "" = it has none.
  std::string_view suspend;
};
std::span<const WorkloadKind> workload_kinds();
// Null when there is none of that group and kind.
const WorkloadKind* find_workload_kind(std::string_view group, std::string_view kind);

// Nothing when `object` is none of these kinds.
std::optional<WorkloadState> read_workload(const nlohmann::json& object);

// Kueue's word on one job.
struct QueueEntry {
  std::string name;
  std::string owner_uid;  // of the object that is queued
  std::string queue;      // the LocalQueue
  int64_t priority = 0;
  int64_t created_unix_s = 0;
  bool is_admitted = false;
  bool is_over = false;
  bool is_kept_out = false;  // somebody has deactivated it
  std::string why;           // it has no place yet
};
std::optional<QueueEntry> read_queue_entry(const nlohmann::json& workload);

// Where a job stands in its queue.
struct QueuePlace {
  bool is_admitted = false;
  bool is_kept_out = false;
  std::string queue;
  size_t position = 0;  // 1 = the next
  size_t waiting = 0;   // in this queue, of this namespace
  std::string why;
  friend bool operator==(const QueuePlace&, const QueuePlace&) = default;
};
// Nothing when no entry belongs to `owner_uid`. By priority, then age, as Kueue does.
std::optional<QueuePlace> find_place(const std::vector<QueueEntry>& entries,
                                     const std::string& owner_uid);

}  // namespace shanty::follow
