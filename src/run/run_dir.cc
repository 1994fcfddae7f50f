#include "run/run_dir.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "os/files.h"
#include "run/believable_time.h"
#include "text/json_fields.h"
#include "run/json_file.h"

namespace shanty {
namespace {

using nlohmann::json;

constexpr size_t kMaxRunJsonBytes = 4 * 1024 * 1024;
constexpr int kRunJsonFormat = 1;
constexpr std::string_view kParts[] = {"events", "logs", "steps", "errors", "saves", "nodes"};
constexpr size_t kMaxJobNameInRunId = 40;

std::string run_json_path(const std::string& path) { return path + "/run.json"; }

std::string encode_run_info(const RunInfo& info) {
  json out;
  out["format"] = kRunJsonFormat;
  out["run_id"] = info.run_id;
  out["job"] = info.job_name;
  out["command"] = info.command;
  out["working_directory"] = info.working_directory;
  out["host"] = info.host;
  out["nodes"] = info.nodes;
  out["slots"] = info.slots;
  out["started_unix_ns"] = info.started_unix_ns;
  out["started"] = format_utc(info.started_unix_ns);
  return print_json_pretty(out);
}

Result<RunInfo> read_run_info(const std::string& directory) {
  const std::string path = run_json_path(directory);
  const json in = TRY(read_json_file(path, kRunJsonFormat, kMaxRunJsonBytes));
  RunInfo info;
  info.run_id = json_string(in, "run_id");
  info.job_name = json_string(in, "job");
  info.working_directory = json_string(in, "working_directory");
  info.host = json_string(in, "host");
  info.nodes = json_int(in, "nodes", 1);
  info.slots = json_int(in, "slots", 1);
  info.started_unix_ns = believable_unix_ns(json_int64(in, "started_unix_ns"));
  if (const json* words = json_array(in, "command")) {
    for (const json& word : *words) {
      if (word.is_string()) info.command.push_back(word.get<std::string>());
    }
  }
  if (info.run_id.empty()) return Error{"reading " + path + ": no run_id in it"};
  return info;
}

Result<std::string> absolute_path(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return Error{"making " + path + " absolute: " + error.message()};
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Status refuse_foreign(const std::string& path, const RunInfo& info) {
  if (!file_exists(path)) return {};
  // Another node of the same job may be making the same directory at this moment. It writes
  // run.json before all but these, so the names must be read before it is looked for.
  const auto names = TRY(list_directory(path));
  if (file_exists(run_json_path(path))) {
    const RunInfo there = TRY(read_run_info(path));
    if (there.run_id == info.run_id) return {};
    return Error{"run directory " + path + " already holds the run " + there.run_id +
                 "; choose another --run-dir or remove it"};
  }
  for (const std::string& name : names) {
    if (name.starts_with("run.json.tmp")) continue;
    if (std::find(std::begin(kParts), std::end(kParts), name) == std::end(kParts)) {
      return Error{"run directory " + path + " is not empty and holds no run (it has \"" + name +
                   "\"); choose another --run-dir"};
    }
  }
  return {};
}

std::string generation_dir(const std::string& base, std::string_view kind, uint64_t generation) {
  return fmt::format("{}/{}/gen-{:04}", base, kind, generation);
}

// The number in `name` between `prefix` and `suffix`.
template <typename Number>
bool number_in_name(std::string_view name, std::string_view prefix, std::string_view suffix,
                    Number& out) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  if (name.size() <= prefix.size() + suffix.size()) return false;
  name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out);
  return error == std::errc() && end == name.data() + name.size();
}

bool is_newer(const RunDir& a, const RunDir& b) {
  if (a.info().started_unix_ns != b.info().started_unix_ns) {
    return a.info().started_unix_ns > b.info().started_unix_ns;
  }
  return a.info().run_id > b.info().run_id;
}

}  // namespace

Result<RunDir> RunDir::create(const std::string& given_path, const RunInfo& info) {
  const std::string path = TRY(absolute_path(given_path));
  TRY_STATUS(refuse_foreign(path, info));
  for (const std::string_view part : kParts) {
    TRY_STATUS(make_directories(fmt::format("{}/{}", path, part)));
  }
  if (!file_exists(run_json_path(path))) {
    TRY_STATUS(write_file_atomically(run_json_path(path), encode_run_info(info)));
  }
  return RunDir(path, info);
}

Result<RunDir> RunDir::open(const std::string& given_path) {
  const std::string path = TRY(absolute_path(given_path));
  return RunDir(path, TRY(read_run_info(path)));
}

bool RunDir::is_running() const { return SharedLock::held_by_someone(lock()); }

std::string RunDir::node_samples(int node_rank) const {
  return fmt::format("{}/nodes/node-{:05}.jsonl", path_, node_rank);
}

std::string RunDir::node_events(int node_rank) const {
  return fmt::format("{}/node-{:05}.jsonl", events_dir(), node_rank);
}

std::string RunDir::command_events(int node_rank) const {
  return fmt::format("{}/command-{:05}.jsonl", events_dir(), node_rank);
}

std::string RunDir::log(uint64_t generation, int rank) const {
  return fmt::format("{}/rank-{:05}.log", generation_dir(path_, "logs", generation), rank);
}

std::string RunDir::log_index(uint64_t generation, int rank) const {
  return fmt::format("{}/rank-{:05}.idx", generation_dir(path_, "logs", generation), rank);
}

std::string RunDir::error_log(uint64_t generation, int rank) const {
  return fmt::format("{}/rank-{:05}.err", generation_dir(path_, "logs", generation), rank);
}

std::string RunDir::error_log_index(uint64_t generation, int rank) const {
  return error_log(generation, rank) + ".idx";
}

std::string RunDir::steps(uint64_t generation, int rank) const {
  return fmt::format("{}/rank-{:05}.steps", generation_dir(path_, "steps", generation), rank);
}

std::string RunDir::error_json(uint64_t generation, int rank) const {
  return fmt::format("{}/rank-{:05}.json", generation_dir(path_, "errors", generation), rank);
}

std::string RunDir::elastic_error_json(uint64_t generation, int rank) const {
  return fmt::format("{}/rank-{:05}.elastic.json", generation_dir(path_, "errors", generation),
                     rank);
}

Status RunDir::make_generation(uint64_t generation) const {
  for (const char* kind : {"logs", "steps", "errors"}) {
    TRY_STATUS(make_directories(generation_dir(path_, kind, generation)));
  }
  return {};
}

std::vector<uint64_t> RunDir::generations(std::string_view kind) const {
  std::vector<uint64_t> out;
  const auto names = list_directory(fmt::format("{}/{}", path_, kind));
  if (!names) return out;
  for (const std::string& name : *names) {
    uint64_t generation = 0;
    if (number_in_name(name, "gen-", "", generation)) out.push_back(generation);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int> RunDir::ranks(std::string_view kind, uint64_t generation,
                               std::string_view suffix) const {
  std::vector<int> out;
  const auto names = list_directory(generation_dir(path_, kind, generation));
  if (!names) return out;
  for (const std::string& name : *names) {
    int rank = 0;
    if (number_in_name(name, "rank-", suffix, rank) && rank >= 0) out.push_back(rank);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string default_state_dir() {
  const char* state_home = std::getenv("XDG_STATE_HOME");
  // The convention says that relative paths in these variables are to be ignored.
  if (state_home != nullptr && state_home[0] == '/') return std::string(state_home) + "/shanty";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.local/state/shanty";
  return fmt::format("/tmp/shanty-{}", ::getuid());
}

std::string runs_dir(const std::string& state_dir) { return state_dir + "/runs"; }

std::string make_run_id(std::string_view job_name, int64_t unix_ns, uint64_t entropy) {
  const std::string utc = format_utc(unix_ns);  // 2026-11-29T18:04:05.123Z
  std::string id = utc.substr(0, 4) + utc.substr(5, 2) + utc.substr(8, 2) + "-" +
                   utc.substr(11, 2) + utc.substr(14, 2) + utc.substr(17, 2) + "-";
  for (const char c : job_name.substr(0, kMaxJobNameInRunId)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    id += plain ? c : '-';
  }
  return id + fmt::format("-{:04x}", entropy & 0xffff);
}

std::vector<RunDir> list_runs(const std::string& state_dir) {
  std::vector<RunDir> runs;
  const auto names = list_directory(runs_dir(state_dir));
  if (!names) return runs;
  for (const std::string& name : *names) {
    auto run = RunDir::open(runs_dir(state_dir) + "/" + name);
    if (run) runs.push_back(std::move(*run));
  }
  std::sort(runs.begin(), runs.end(), is_newer);
  return runs;
}

Result<RunDir> find_run(const std::string& state_dir, std::string_view spec) {
  const std::string name(spec);
  if (!name.empty() && file_exists(run_json_path(name))) return RunDir::open(name);
  if (name.find('/') != std::string::npos) return Error{"there is no run directory at " + name};
  const std::vector<RunDir> runs = list_runs(state_dir);
  if (runs.empty()) {
    const std::string wanted = name.empty() ? "" : "looking for \"" + name + "\": ";
    return Error{wanted + "there are no runs in " + runs_dir(state_dir)};
  }
  if (name.empty()) return runs.front();
  std::vector<const RunDir*> matches;
  for (const RunDir& run : runs) {
    if (run.info().run_id == name) return run;
    if (run.info().run_id.starts_with(name)) matches.push_back(&run);
  }
  for (const RunDir& run : runs) {
    if (run.info().job_name == name) return run;
  }
  if (matches.size() == 1) return *matches.front();
  if (matches.size() > 1) {
    return Error{"\"" + name + "\" begins the ids of " + std::to_string(matches.size()) +
                 " runs, for example " + matches[0]->info().run_id + " and " +
                 matches[1]->info().run_id};
  }
  return Error{"no run, job or run directory is called \"" + name + "\"; the newest run is " +
               runs.front().info().run_id};
}

}  // namespace shanty
