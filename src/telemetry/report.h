#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/events.h"
#include "run/run_dir.h"
#include "telemetry/saved_files.h"
#include "telemetry/step_record.h"

namespace shanty {

struct ReportFailure {
  int64_t unix_ns = 0;
  uint64_t generation = 0;
  int rank = -1;
  int node_rank = -1;
  std::string node;
  std::string reason;
  std::string first_error;
  bool has_step = false;
  uint64_t step = 0;
};

struct ReportLoss {
  std::string cause;  // loss_cause::...
  double seconds = 0;
};

namespace loss_cause {
inline constexpr const char* kStartUp = "start-up";
inline constexpr const char* kWaiting = "waiting for nodes";
inline constexpr const char* kRestart = "restart";
inline constexpr const char* kRepeated = "repeated work";
inline constexpr const char* kCheckpoints = "checkpoints";
inline constexpr const char* kShutdown = "shutdown";
}  // namespace loss_cause

// The account of a run (docs/formats/report.md). wall_time_s = useful_time_s + all losses.
struct Report {
  std::string run_id;
  std::string job_name;
  std::string run_directory;
  std::string outcome;  // "succeeded", "failed", "stopped", "running", "died"
  std::string reason;   // why it ended so
  int64_t started_unix_ns = 0;
  int64_t ended_unix_ns = 0;
  int nodes = 0;
  int world_size = 0;
  uint64_t generations = 0;
  std::vector<ReportFailure> failures;
  double wall_time_s = 0;
  double useful_time_s = 0;
  std::vector<ReportLoss> losses;  // every cause, in a fixed order
  bool has_steps = false;
  uint64_t steps = 0;  // useful ones: repeated steps count once
  uint64_t repeated_steps = 0;
  bool has_last_step = false;
  uint64_t last_step = 0;
  double samples_per_s = 0;  // over useful step time; NaN = unknown
  double final_loss = 0;     // NaN = unknown
  uint64_t checkpoints_saved = 0;
  std::vector<SavedFile>
      checkpoints;                 // that the script wrote and whose place is known, newest first
  std::string logs;                // directory
  std::vector<std::string> notes;  // torn records, missed steps, hooks off
};

// The steps one rank recorded in one generation.
struct RankSteps {
  uint64_t generation = 0;
  int rank = 0;
  std::vector<StepRecord> records;  // in the order they were written
};

// Everything a report is made from; build_report fills it from files.
struct ReportInput {
  RunInfo info;
  std::string run_directory;
  bool running = false;
  int64_t now_unix_ns = 0;       // the end of a run that still goes on
  std::vector<Event> events;     // by time
  std::vector<RankSteps> steps;  // of the lowest rank with records, by generation
  double total_samples = std::numeric_limits<double>::quiet_NaN();  // of useful steps, all ranks
  std::vector<SavedFile> checkpoints;
  std::vector<std::string> notes;
};

// Pure.
Report account(const ReportInput& input);
// Reads the run's files, never its report.json. What is torn or cannot be read is said in notes.
Report build_report(const RunDir& run, int64_t now_unix_ns);

// The newest that is whole, or at least there and of a format that is not checked; nullptr: none.
const SavedFile* newest_usable(const Report& report);

std::string encode_report(const Report& report);  // pretty JSON with a final newline
Result<Report> decode_report(std::string_view json);
Status write_report(const std::string& path, const Report& report);
Result<Report> read_report(const std::string& path);

}  // namespace shanty
