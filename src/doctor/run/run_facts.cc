#include "doctor/run/run_facts.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/files.h"
#include "telemetry/steps_file.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

constexpr size_t kMaxVersionBytes = 64 * 1024 * 1024;
constexpr size_t kMaxGenerations = 64;  // the newest
constexpr int kMaxSampledNodes = 1024;

// Halves the series whenever it is full: steps whose number is a multiple of `stride` stay.
void add_thinned(std::vector<StepRecord>& records, std::vector<StepRecord>& read,
                 uint64_t& stride) {
  for (const StepRecord& record : read) {
    if (record.step % stride == 0) records.push_back(record);
    if (records.size() < kMaxSeriesRecords) continue;
    stride *= 2;
    std::erase_if(records, [&](const StepRecord& r) { return r.step % stride != 0; });
  }
  read.clear();
}

GenerationSteps read_generation(const RunDir& run, uint64_t generation,
                                std::vector<std::string>& notes) {
  GenerationSteps out{generation, {}};
  for (const int rank : run.ranks("steps", generation, ".steps")) {
    if (out.ranks.size() == kMaxSeriesRanks) {
      notes.push_back(fmt::format("only the steps of {} ranks were read", kMaxSeriesRanks));
      break;
    }
    RankSeries series{rank, run.steps(generation, rank), {}};
    StepsReader reader(series.file);
    std::vector<StepRecord> read;
    uint64_t stride = 1;
    while (reader.read(read)) add_thinned(series.records, read, stride);
    if (!series.records.empty()) out.ranks.push_back(std::move(series));
  }
  return out;
}

std::vector<NodeVersions> read_versions(const RunDir& run) {
  std::vector<NodeVersions> out;
  const auto text = read_file(run.versions_jsonl(), kMaxVersionBytes);
  if (!text) return out;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const auto json = parse_json(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!json || !json->is_object()) continue;
    NodeVersions versions{json_int(*json, "node_rank", 0), {}};
    for (const auto& [key, value] : json->items()) {
      if (value.is_string() && key != "crc") versions.values[key] = value.get<std::string>();
    }
    out.push_back(std::move(versions));
  }
  return out;
}

}  // namespace

RunFacts read_run(const RunDir& run) {
  RunFacts out;
  out.path = run.path();
  out.info = run.info();
  out.running = run.is_running();
  if (auto live = read_live(run.live_json())) {
    out.live = std::move(*live);
    out.has_live = true;
  }
  out.events = EventFollower(run).poll();
  std::vector<uint64_t> generations = run.generations("steps");
  if (generations.size() > kMaxGenerations) {
    generations.erase(generations.begin(), generations.end() - kMaxGenerations);
    out.notes.push_back(fmt::format("only the last {} generations were read", kMaxGenerations));
  }
  for (const uint64_t generation : generations) {
    GenerationSteps steps = read_generation(run, generation, out.notes);
    if (!steps.ranks.empty()) out.steps.push_back(std::move(steps));
  }
  out.versions = read_versions(run);
  for (int node = 0; node < std::min(run.info().nodes, kMaxSampledNodes); ++node) {
    std::vector<NodeSample> samples = read_node_samples(run.node_samples(node));
    if (!samples.empty()) out.node_samples[node] = std::move(samples);
  }
  return out;
}

}  // namespace shanty
