#include "doctor/structured.h"

#include <iterator>
#include <utility>

#include "doctor/flight/flight.h"
#include "doctor/flight/pickle.h"
#include "doctor/run/diagnose_run.h"

namespace shanty {
namespace {

void add(std::vector<Finding> findings, Hypotheses& out) {
  for (Finding& finding : findings) {
    out.push_back({.finding = std::move(finding), .nearness = Nearness::kStructure});
  }
}

}  // namespace

void add_flight_findings(const CaseFiles& files, Hypotheses& out, std::vector<std::string>& notes) {
  std::vector<flight::FlightFile> dumps;
  for (const Input& input : files.inputs) {
    if (input.kind != InputKind::kFlightRecorder) continue;
    flight::FlightFile dump{.name = input.name, .path = input.path};
    if (dump.path.empty()) {
      auto bytes = input.read(flight::kMaxDumpBytes);
      if (!bytes) {
        notes.push_back(input.name + ": " + bytes.error().message);
        continue;
      }
      dump.bytes = std::move(*bytes);
    }
    dumps.push_back(std::move(dump));
  }
  if (!dumps.empty()) add(flight::diagnose_flight(dumps), out);
}

void add_run_findings(const CaseFiles& files, const DiagnoseOptions& options, Hypotheses& out,
                      std::vector<std::string>& notes) {
  std::vector<RunDir> runs;
  for (const Input& input : files.inputs) {
    if (input.kind != InputKind::kRunDirectory) continue;
    auto run = RunDir::open(input.path);
    if (!run) {
      notes.push_back(run.error().message);
      continue;
    }
    const bool watch = options.wait != nullptr && run->is_running();
    add(watch ? diagnose_live(*run, system_clock(), {.wait = options.wait}) : diagnose_run(*run),
        out);
    runs.push_back(std::move(*run));
  }
  if (runs.size() > 1) add(compare_runs(runs), out);
}

}  // namespace shanty
