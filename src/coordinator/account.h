#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "gang/coordinator.h"
#include "run/events.h"
#include "run/run_dir.h"
#include "telemetry/live.h"

namespace shanty {

// The coordinator's side of the run directory: its events, versions.jsonl, live.json and the final
// report. A file that cannot be written is told once on stderr and does not stop the job.
class Account {
 public:
  static Result<Account> open(const RunDir& run);

  void record(const gang::Note& note);
  void record(std::string_view kind, std::string text);
  // An agent's word about its machine, as JSON; repeats are ignored. A version that differs from
  // what another node said becomes a warning.
  void record_facts(int node_rank, const std::string& facts_json);
  void write_live(const LiveState& state);
  void write_report();

  // What an earlier coordinator of this run recorded.
  struct Past {
    std::vector<gang::Failure> failures;
    gang::Generation generation = 0;               // the highest it formed
    gang::Outcome outcome = gang::Outcome::kNone;  // kNone = it had not ended the job
    std::string reason;
  };
  static Past read_past(const RunDir& run);

 private:
  Account(RunDir run, EventWriter events) : run_(std::move(run)), events_(std::move(events)) {}
  void append(Event event);
  void tell(const Status& status);
  void compare_facts(int node_rank, const std::string& facts_json);

  RunDir run_;
  EventWriter events_;
  std::map<int, std::string> facts_;  // by node rank
  bool told_ = false;
};

}  // namespace shanty
