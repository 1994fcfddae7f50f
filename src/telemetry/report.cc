#include "telemetry/report.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "os/files.h"
#include "run/believable_time.h"
#include "text/json_fields.h"
#include "run/json_file.h"
#include "telemetry/live.h"
#include "telemetry/step_ledger.h"
#include "telemetry/steps_file.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr int kReportFormat = 1;
constexpr size_t kMaxReportBytes = 16 * 1024 * 1024;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// Of one rank in one generation; later ones are left out with a note. 4 M records are 256 MB.
constexpr size_t kMaxRecordsPerRank = 4 * 1024 * 1024;

// What had to be left out while reading.
struct ReadProblems {
  uint64_t skipped_records = 0;
  int torn_files = 0;
  int bad_files = 0;
  bool cut = false;
};

std::vector<StepRecord> read_steps(const std::string& path, ReadProblems& problems) {
  StepsReader reader(path);
  std::vector<StepRecord> records;
  while (records.size() < kMaxRecordsPerRank && reader.read(records)) {
  }
  problems.cut = problems.cut || records.size() >= kMaxRecordsPerRank;
  problems.skipped_records += reader.skipped_records();
  problems.torn_files += reader.torn_bytes() > 0 ? 1 : 0;
  problems.bad_files += reader.bad() ? 1 : 0;
  return records;
}

// The steps of the lowest rank that has any, in each generation.
std::vector<RankSteps> read_leading_steps(const RunDir& run) {
  std::vector<RankSteps> out;
  ReadProblems counted_later;
  for (const uint64_t generation : run.generations("steps")) {
    for (const int rank : run.ranks("steps", generation, ".steps")) {
      auto records = read_steps(run.steps(generation, rank), counted_later);
      if (records.empty()) continue;
      out.push_back({generation, rank, std::move(records)});
      break;
    }
  }
  return out;
}

// Samples of one rank's useful steps, NaN when none tells. Steps that were only counted had as many
// as the others on average.
double add_up_samples(const std::vector<StepRecord>& records, const UsefulSteps& useful) {
  double samples = 0;
  uint64_t sampled = 0;
  uint64_t untold = 0;
  for (const StepRecord& record : records) {
    if (!useful.contains(record)) continue;
    if (!std::isnan(record.samples)) {
      samples += static_cast<double>(record.samples);
      ++sampled;
    } else if (record.only_counted()) {
      ++untold;
    }
  }
  if (sampled == 0) return kUnknown;
  return samples + samples / static_cast<double>(sampled) * static_cast<double>(untold);
}

// Samples of all ranks in useful steps; NaN when no step tells its samples.
double add_up_samples(const RunDir& run, const ReportInput& input, ReadProblems& problems) {
  const auto useful = find_useful_steps(input.steps, input.events);
  double total = kUnknown;
  for (const uint64_t generation : run.generations("steps")) {
    const auto rule = useful.find(generation);
    for (const int rank : run.ranks("steps", generation, ".steps")) {
      if (rule == useful.end()) continue;
      const double samples =
          add_up_samples(read_steps(run.steps(generation, rank), problems), rule->second);
      if (!std::isnan(samples)) total = (std::isnan(total) ? 0 : total) + samples;
    }
  }
  return total;
}

uint64_t missed_records(const RunDir& run) {
  const auto live = read_live(run.live_json());
  uint64_t missed = 0;
  if (live) {
    for (const RankTelemetry& rank : live->ranks) missed += rank.missed_records;
  }
  return missed;
}

void add_notes(const RunDir& run, const EventFollower& follower, const ReadProblems& problems,
               ReportInput& input) {
  auto& notes = input.notes;
  if (follower.skipped_lines() > 0) {
    notes.push_back(
        fmt::format("damaged lines in the event files, skipped: {}", follower.skipped_lines()));
  }
  if (!input.running && follower.unfinished_lines() > 0) {
    notes.push_back(fmt::format("event files that end in the middle of a line: {}",
                                follower.unfinished_lines()));
  }
  if (problems.skipped_records > 0) {
    notes.push_back(fmt::format("damaged step records, skipped: {}", problems.skipped_records));
  }
  if (!input.running && problems.torn_files > 0) {
    notes.push_back(
        fmt::format("step files that end in the middle of a record: {}", problems.torn_files));
  }
  if (problems.bad_files > 0) {
    notes.push_back(fmt::format("step files that could not be read: {}", problems.bad_files));
  }
  if (problems.cut) notes.emplace_back("there are more step records than a report reads");
  if (const uint64_t missed = missed_records(run); missed > 0) {
    notes.push_back(fmt::format("steps that came too fast to be recorded: {}", missed));
  }
}

// Of many the last one stands for all: storage that fails mostly goes on to do so.
void note_failed_saves(const std::vector<FailedSave>& failed, std::vector<std::string>& notes) {
  if (failed.empty()) return;
  const FailedSave& last = failed.back();
  notes.push_back(failed.size() == 1
                      ? fmt::format("the checkpoint of step {} failed: {}", last.step, last.why)
                      : fmt::format("{} checkpoints failed, the last, of step {}: {}",
                                    failed.size(), last.step, last.why));
}

json failure_to_json(const ReportFailure& failure) {
  json out;
  out["time"] = format_utc(failure.unix_ns);
  out["unix_ns"] = failure.unix_ns;
  out["generation"] = failure.generation;
  out["rank"] = failure.rank >= 0 ? json(failure.rank) : json(nullptr);
  out["node_rank"] = failure.node_rank >= 0 ? json(failure.node_rank) : json(nullptr);
  out["node"] = failure.node;
  out["reason"] = failure.reason;
  out["first_error"] = failure.first_error;
  out["step"] = failure.has_step ? json(failure.step) : json(nullptr);
  return out;
}

ReportFailure failure_from_json(const json& in) {
  ReportFailure failure;
  failure.unix_ns = believable_unix_ns(json_int64(in, "unix_ns"));
  failure.generation = json_uint64(in, "generation");
  failure.rank = json_int(in, "rank", -1);
  failure.node_rank = json_int(in, "node_rank", -1);
  failure.node = json_string(in, "node");
  failure.reason = json_string(in, "reason");
  failure.first_error = json_string(in, "first_error");
  failure.has_step = in.is_object() && in.contains("step") && in["step"].is_number_unsigned();
  failure.step = json_uint64(in, "step");
  return failure;
}

json saved_to_json(const SavedFile& saved) {
  return {{"path", saved.path},
          {"step", saved.step},
          {"unix_ns", saved.unix_ns},
          {"state", to_string(saved.state)},
          {"problem", saved.problem}};
}

SavedFile saved_from_json(const json& in) {
  SavedFile saved{.path = json_string(in, "path"),
                  .step = json_uint64(in, "step"),
                  .unix_ns = believable_unix_ns(json_int64(in, "unix_ns")),
                  .problem = json_string(in, "problem")};
  const std::string state = json_string(in, "state");
  for (const SavedState known : {SavedState::kWhole, SavedState::kDamaged, SavedState::kMissing}) {
    if (state == to_string(known)) saved.state = known;
  }
  return saved;
}

std::vector<std::string> strings_from_json(const json& in, const char* name) {
  std::vector<std::string> out;
  const json* array = json_array(in, name);
  if (array == nullptr) return out;
  for (const json& text : *array) {
    if (text.is_string()) out.push_back(text.get<std::string>());
  }
  return out;
}

Report report_from_json(const json& in) {
  Report report;
  report.run_id = json_string(in, "run_id");
  report.job_name = json_string(in, "job");
  report.run_directory = json_string(in, "run_directory");
  report.outcome = json_string(in, "outcome");
  report.reason = json_string(in, "reason");
  report.started_unix_ns = believable_unix_ns(json_int64(in, "started_unix_ns"));
  report.ended_unix_ns = believable_unix_ns(json_int64(in, "ended_unix_ns"));
  report.nodes = json_int(in, "nodes");
  report.world_size = json_int(in, "world_size");
  report.generations = json_uint64(in, "generations");
  if (const json* failures = json_array(in, "failures")) {
    for (const json& failure : *failures) report.failures.push_back(failure_from_json(failure));
  }
  report.wall_time_s = json_double(in, "wall_time_s");
  report.useful_time_s = json_double(in, "useful_time_s");
  if (const json* losses = json_array(in, "losses")) {
    for (const json& loss : *losses) {
      report.losses.push_back({json_string(loss, "cause"), json_double(loss, "seconds")});
    }
  }
  report.has_steps = in.contains("steps") && in["steps"].is_number_unsigned();
  report.steps = json_uint64(in, "steps");
  report.repeated_steps = json_uint64(in, "repeated_steps");
  report.has_last_step = in.contains("last_step") && in["last_step"].is_number_unsigned();
  report.last_step = json_uint64(in, "last_step");
  report.samples_per_s = json_double(in, "samples_per_s", kUnknown);
  report.final_loss = json_double(in, "final_loss", kUnknown);
  report.checkpoints_saved = json_uint64(in, "checkpoints_saved");
  if (const json* checkpoints = json_array(in, "checkpoints")) {
    for (const json& saved : *checkpoints) report.checkpoints.push_back(saved_from_json(saved));
  }
  report.logs = json_string(in, "logs");
  report.notes = strings_from_json(in, "notes");
  return report;
}

}  // namespace

Report build_report(const RunDir& run, int64_t now_unix_ns) {
  ReportInput input;
  input.info = run.info();
  input.run_directory = run.path();
  input.running = run.is_running();
  input.now_unix_ns = now_unix_ns;
  EventFollower follower(run);
  input.events = follower.poll();
  input.steps = read_leading_steps(run);
  ReadProblems problems;
  input.total_samples = add_up_samples(run, input, problems);
  add_notes(run, follower, problems, input);
  note_failed_saves(read_failed_saves(run), input.notes);
  input.checkpoints = read_saved_files(run);
  return account(input);
}

std::string encode_report(const Report& report) {
  json out;
  out["format"] = kReportFormat;
  out["run_id"] = report.run_id;
  out["job"] = report.job_name;
  out["run_directory"] = report.run_directory;
  out["outcome"] = report.outcome;
  out["reason"] = report.reason;
  out["started"] = format_utc(report.started_unix_ns);
  out["started_unix_ns"] = report.started_unix_ns;
  out["ended"] = format_utc(report.ended_unix_ns);
  out["ended_unix_ns"] = report.ended_unix_ns;
  out["nodes"] = report.nodes;
  out["world_size"] = report.world_size;
  out["generations"] = report.generations;
  out["failures"] = json::array();
  for (const ReportFailure& failure : report.failures) {
    out["failures"].push_back(failure_to_json(failure));
  }
  out["wall_time_s"] = report.wall_time_s;
  out["useful_time_s"] = report.useful_time_s;
  out["losses"] = json::array();
  for (const ReportLoss& loss : report.losses) {
    out["losses"].push_back({{"cause", loss.cause}, {"seconds", loss.seconds}});
  }
  out["steps"] = report.has_steps ? json(report.steps) : json(nullptr);
  out["repeated_steps"] = report.has_steps ? json(report.repeated_steps) : json(nullptr);
  out["last_step"] = report.has_last_step ? json(report.last_step) : json(nullptr);
  out["samples_per_s"] = json_number(report.samples_per_s);
  out["final_loss"] = json_number(report.final_loss);
  out["checkpoints_saved"] = report.checkpoints_saved;
  out["checkpoints"] = json::array();
  for (const SavedFile& saved : report.checkpoints) {
    out["checkpoints"].push_back(saved_to_json(saved));
  }
  const SavedFile* usable = newest_usable(report);
  out["newest_usable_checkpoint"] = usable != nullptr ? json(usable->path) : json(nullptr);
  out["logs"] = report.logs;
  out["notes"] = report.notes;
  return print_json_pretty(out);
}

Result<Report> decode_report(std::string_view text) {
  return report_from_json(TRY(parse_json_file(text, kReportFormat)));
}

Result<Report> read_report(const std::string& path) {
  return report_from_json(TRY(read_json_file(path, kReportFormat, kMaxReportBytes)));
}

Status write_report(const std::string& path, const Report& report) {
  return write_file_atomically(path, encode_report(report));
}

}  // namespace shanty
