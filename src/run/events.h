#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/files.h"
#include "run/run_dir.h"

namespace shanty {

// One line of an events file (docs/formats/events.md): what happened, who says so, when.
struct Event {
  int64_t unix_ns = 0;
  std::string source;       // "coordinator", "node-0", "command-0"
  std::string kind;         // event_kind::...
  uint64_t generation = 0;  // 0 = of no generation
  int rank = -1;            // -1 = of no rank
  int node_rank = -1;       // -1 = of no node
  std::string text;         // one sentence for people
  std::string extra_json;   // a JSON object for programs, "" = none

  friend bool operator==(const Event&, const Event&) = default;
};

namespace event_kind {
inline constexpr std::string_view kJobStarted = "job_started";
inline constexpr std::string_view kAgentJoined = "agent_joined";
inline constexpr std::string_view kAgentLost = "agent_lost";
inline constexpr std::string_view kAgentLeft = "agent_left";
inline constexpr std::string_view kAgentRefused = "agent_refused";
inline constexpr std::string_view kWaiting = "waiting";
inline constexpr std::string_view kWorldFormed = "world_formed";
inline constexpr std::string_view kWorkersStarted = "workers_started";
inline constexpr std::string_view kWorkerExited = "worker_exited";
inline constexpr std::string_view kWorkerFailed = "worker_failed";
inline constexpr std::string_view kGenerationEnded = "generation_ended";
inline constexpr std::string_view kRestarting = "restarting";
inline constexpr std::string_view kStopping = "stopping";
inline constexpr std::string_view kRecovered = "recovered";
inline constexpr std::string_view kFirstStep = "first_step";
inline constexpr std::string_view kCheckpointSaved = "checkpoint_saved";
inline constexpr std::string_view kHooksOff = "hooks_off";
inline constexpr std::string_view kInjected = "injected";
inline constexpr std::string_view kCoordinatorRestarted = "coordinator_restarted";
inline constexpr std::string_view kAgentRestarted = "agent_restarted";
inline constexpr std::string_view kOrphansKilled = "orphans_killed";
inline constexpr std::string_view kOutputStalled = "output_stalled";
inline constexpr std::string_view kWarning = "warning";
inline constexpr std::string_view kEnded = "ended";
}  // namespace event_kind

inline constexpr size_t kMaxEventLineBytes = 64 * 1024;
inline constexpr size_t kMaxEventTextBytes = 16 * 1024;
inline constexpr size_t kMaxEventNesting = 32;

// The line without its newline. Text beyond kMaxEventTextBytes is cut. Fails when extra_json is
// not an object or the line would be longer than kMaxEventLineBytes.
Result<std::string> encode_event(const Event& event);
// nullopt: torn, corrupt, of an unknown version or over a limit.
std::optional<Event> decode_event(std::string_view line);

// Appends to one events file. One writer per file at a time; a line torn by an earlier writer's
// death is closed first.
class EventWriter {
 public:
  static Result<EventWriter> open(const std::string& path, std::string source);
  // One write(2). `event.source` is filled in when empty.
  Status append(Event event);

 private:
  EventWriter(AppendFile file, std::string source)
      : file_(std::move(file)), source_(std::move(source)) {}
  AppendFile file_;
  std::string source_;
};

// Follows one events file. The file need not exist yet.
class EventReader {
 public:
  explicit EventReader(std::string path) : path_(std::move(path)) {}
  // The events that have become whole since the last call.
  std::vector<Event> poll();
  // Lines that were whole but did not check, so far.
  uint64_t skipped_lines() const { return skipped_lines_; }
  // A last line without its newline is waiting: torn, when nobody writes any more.
  bool has_unfinished_line() const { return !pending_.empty() || discarding_; }

 private:
  void take(std::string_view bytes, std::vector<Event>& out);

  std::string path_;
  uint64_t offset_ = 0;
  std::string pending_;
  bool discarding_ = false;  // within a line longer than kMaxEventLineBytes
  uint64_t skipped_lines_ = 0;
};

// Follows all events files of a run, new ones too.
class EventFollower {
 public:
  explicit EventFollower(const RunDir& run) : events_dir_(run.events_dir()) {}
  // New events of all files by time; those of one file keep their order.
  std::vector<Event> poll();
  uint64_t skipped_lines() const;
  int unfinished_lines() const;

 private:
  std::string events_dir_;
  std::map<std::string, EventReader> readers_;
};

}  // namespace shanty
