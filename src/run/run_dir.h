#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace shanty {

// What run.json says: who started what, where, when.
struct RunInfo {
  std::string run_id;
  std::string job_name;
  std::vector<std::string> command;  // the command line, as typed
  std::string working_directory;
  std::string host;
  int nodes = 1;
  int slots = 1;  // workers per node
  int64_t started_unix_ns = 0;

  int world_size() const { return nodes * slots; }
};

// One run's directory (docs/formats/run-directory.md): the paths of its files. Cheap to copy; holds
// no descriptor. Making a path makes no file.
class RunDir {
 public:
  // Makes the directory and its fixed sub-directories and writes run.json. A directory that already
  // holds the run `info.run_id` is joined (another node of the same job); one that holds another
  // run, or files that are not a run's, is refused.
  static Result<RunDir> create(const std::string& path, const RunInfo& info);
  // Fails unless `path` holds a readable run.json.
  static Result<RunDir> open(const std::string& path);

  const std::string& path() const { return path_; }
  const RunInfo& info() const { return info_; }
  // True while any process of the run lives on this machine (or shares its file locks).
  bool is_running() const;

  std::string job_json() const { return path_ + "/job.json"; }
  std::string plan_json() const { return path_ + "/plan.json"; }
  std::string lock() const { return path_ + "/lock"; }
  std::string versions_jsonl() const { return path_ + "/versions.jsonl"; }
  std::string live_json() const { return path_ + "/live.json"; }
  std::string report_json() const { return path_ + "/report.json"; }
  std::string python_dir() const { return path_ + "/python"; }

  std::string events_dir() const { return path_ + "/events"; }
  std::string coordinator_events() const { return events_dir() + "/coordinator.jsonl"; }
  std::string node_events(int node_rank) const;
  std::string command_events(int node_rank) const;
  // What the node was busy with.
  std::string node_samples(int node_rank) const;

  std::string logs_dir() const { return path_ + "/logs"; }
  std::string log(uint64_t generation, int rank) const;
  std::string log_index(uint64_t generation, int rank) const;
  // Of a rank that writes its streams straight into files: stdout goes into log(), stderr here.
  std::string error_log(uint64_t generation, int rank) const;
  std::string error_log_index(uint64_t generation, int rank) const;
  std::string steps(uint64_t generation, int rank) const;
  std::string error_json(uint64_t generation, int rank) const;
  std::string elastic_error_json(uint64_t generation, int rank) const;

  // Makes logs/, steps/ and errors/ of a generation. Fine when they exist.
  Status make_generation(uint64_t generation) const;
  // Generations that have a directory under `kind` ("logs", "steps"), ascending.
  std::vector<uint64_t> generations(std::string_view kind) const;
  // Ranks that have a file with this suffix (".log", ".steps") there, ascending.
  std::vector<int> ranks(std::string_view kind, uint64_t generation, std::string_view suffix) const;

 private:
  RunDir(std::string path, RunInfo info) : path_(std::move(path)), info_(std::move(info)) {}
  std::string path_;
  RunInfo info_;
};

// $XDG_STATE_HOME/shanty, else ~/.local/state/shanty, else /tmp/shanty-UID.
std::string default_state_dir();
// Where runs without --run-dir live.
std::string runs_dir(const std::string& state_dir);
// "20261129-180405-resnet-train-3fa9": UTC time, the job's name cut to file-name characters, four
// hex digits of `entropy`.
std::string make_run_id(std::string_view job_name, int64_t unix_ns, uint64_t entropy);

// The readable runs under `state_dir`, newest first; others are left out.
std::vector<RunDir> list_runs(const std::string& state_dir);
// A path of a run directory, a prefix of a run id, a job name (its newest run), or "" = the newest
// of all. Errors say what there is.
Result<RunDir> find_run(const std::string& state_dir, std::string_view spec);

}  // namespace shanty
