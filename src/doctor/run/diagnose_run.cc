#include "doctor/run/diagnose_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doctor/run/robust.h"
#include "doctor/run/slow.h"
#include "doctor/run/step_lines.h"
#include "os/files.h"
#include "text/json_fields.h"

namespace shanty {
namespace {

constexpr Duration kLookEvery = std::chrono::milliseconds(500);
constexpr double kLongestWatchS = 1800;
constexpr size_t kMaxProcBytes = 64 * 1024;
constexpr size_t kMaxLogBytes = 64 * 1024 * 1024;  // of one rank's log, from its beginning
constexpr size_t kUsualSteps = 64;                 // the newest, of each rank
constexpr size_t kMaxStretchPoints = 200'000;
constexpr int64_t kHangAgeNs = 10'000'000'000;

void append(std::vector<Finding>& out, std::vector<Finding> more) {
  out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string host_of(const RunFacts& facts, int node_rank) {
  for (const NodeVersions& node : facts.versions) {
    const auto host = node.values.find("host");
    if (node.node_rank == node_rank && host != node.values.end()) return host->second;
  }
  return "";
}

// Only what is surely the worker: its environment names the rank.
bool is_worker(const std::string& process, int rank) {
  const auto environment = read_file(process + "/environ", 4 * 1024 * 1024);
  const std::string wanted = fmt::format("RANK={}", rank);
  if (!environment) return false;
  return environment->starts_with(wanted + '\0') ||
         environment->find('\0' + wanted + '\0') != std::string::npos;
}

void look_at_process(const std::string& proc_root, RankNow& rank) {
  if (rank.pid <= 0) return;
  const std::string process = fmt::format("{}/{}", proc_root, rank.pid);
  if (!is_worker(process, rank.rank)) return;
  const auto stat = read_file(process + "/stat", kMaxProcBytes);
  if (!stat) return;
  const size_t end = stat->rfind(") ");
  if (end != std::string::npos && end + 2 < stat->size()) rank.process_state = (*stat)[end + 2];
  const auto waits_in = read_file(process + "/wchan", kMaxProcBytes);
  if (waits_in && *waits_in != "0") rank.waits_in = *waits_in;
}

Finding not_decided(const HangVerdict& verdict, const RunFacts& facts) {
  Finding out;
  out.code = "HANG112";
  out.severity = Severity::kNote;
  out.confidence = 0.9;
  out.subject.files = {facts.path};
  if (verdict.motion == Motion::kNotStarted) {
    out.message =
        "cannot tell whether it hangs: no step was completed yet, so the usual time of a step "
        "is not known";
    out.fix = {
        "wait for the first step; if none comes, py-spy dump of each rank shows where they are"};
  } else {
    out.message = fmt::format("the job moves: the last step ended {:.1f} s ago", verdict.still_s);
  }
  return out;
}

// The last snapshot of a run that ended while it stood still.
std::vector<Finding> hang_at_the_end(const RunFacts& facts) {
  if (!facts.has_live || facts.live.state == "succeeded" || facts.live.ranks.empty()) return {};
  HangView view = view_of(facts.live, facts, facts.live.unix_ns);
  // What ended after another rank's death shows the ranks in their collectives too.
  const bool killed_by_failure =
      std::any_of(facts.events.begin(), facts.events.end(), [&](const Event& e) {
        return e.kind == event_kind::kWorkerFailed && e.generation == facts.live.generation &&
               e.unix_ns < facts.live.unix_ns - kHangAgeNs;
      });
  if (killed_by_failure) return {};
  HangVerdict verdict = judge_hang(view);
  for (Finding& finding : verdict.findings) {
    finding.confidence = std::min(finding.confidence, 0.8);
    finding.message = "when the run ended: " + finding.message;
  }
  return std::move(verdict.findings);
}

void take_step_lines(std::string_view text, std::vector<ResumePoint>& out) {
  uint64_t line = 0;
  uint64_t step = 0;
  while (!text.empty() && out.size() < kMaxStretchPoints) {
    const size_t end = std::min(text.find_first_of("\n\r"), text.size());
    ++line;
    if (const auto told = parse_step_line(text.substr(0, end))) {
      const bool any = !std::isnan(told->loss) || !std::isnan(told->lr) || told->samples_hash != 0;
      if (told->has_step) step = told->step;
      if (any && (told->has_step || !out.empty() || step > 0)) {
        if (!out.empty() && out.back().step == step) {
          ResumePoint& last = out.back();
          if (std::isnan(last.loss)) last.loss = told->loss;
          if (std::isnan(last.lr)) last.lr = told->lr;
          if (last.samples_hash == 0) last.samples_hash = told->samples_hash;
        } else {
          out.push_back({step, told->loss, told->lr, told->epoch, told->samples_hash, line});
        }
      }
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string read_beginning(const std::string& path) {
  // A longer log tells its beginning, which is what a resume is judged by.
  auto text = read_file(path, kMaxLogBytes);
  return text ? std::move(*text) : std::string();
}

// Points of a log where it tells the steps themselves; its lr and samples beside records else.
void add_log(const RunDir& run, uint64_t generation, int rank, Stretch& stretch) {
  const std::string path = run.log(generation, rank);
  std::vector<ResumePoint> told;
  take_step_lines(read_beginning(path), told);
  if (told.empty()) return;
  const bool log_has_losses = std::any_of(
      told.begin(), told.end(), [](const ResumePoint& p) { return std::isfinite(p.loss); });
  const bool records_have_losses =
      std::any_of(stretch.points.begin(), stretch.points.end(),
                  [](const ResumePoint& p) { return std::isfinite(p.loss); });
  if (log_has_losses && !records_have_losses) {
    stretch.points = std::move(told);
    stretch.file = path;
    stretch.counted_from_start = true;
    return;
  }
  // By order: numbers of the records may count otherwise.
  for (size_t i = 0; i < std::min(told.size(), stretch.points.size()); ++i) {
    stretch.points[i].lr = told[i].lr;
    stretch.points[i].samples_hash = told[i].samples_hash;
  }
}

Stretch stretch_of(const GenerationSteps& steps, const RunFacts& facts) {
  const RankSeries& series = steps.ranks.front();
  Stretch out{.title = fmt::format("generation {}", steps.generation), .file = series.file};
  out.counted_from_start = std::any_of(series.records.begin(), series.records.end(),
                                       [](const StepRecord& r) { return r.named_by_script(); });
  for (size_t i = 0; i < series.records.size(); ++i) {
    const StepRecord& record = series.records[i];
    const double loss = static_cast<double>(record.loss);
    out.points.push_back({.step = record.step, .loss = loss, .line = i + 1});
  }
  for (const RankSeries& rank : steps.ranks) {
    std::vector<double> samples;
    for (const StepRecord& record : rank.records) {
      if (std::isfinite(record.samples)) samples.push_back(static_cast<double>(record.samples));
    }
    const double usual = median_of(std::move(samples));
    out.batch += std::isfinite(usual) ? usual : std::nan("");
  }
  if (!std::isfinite(out.batch)) out.batch = 0;
  for (const Event& event : facts.events) {
    if (event.generation != steps.generation) continue;
    const auto extra = parse_json(event.extra_json);
    if (!extra || !extra->is_object()) continue;
    if (event.kind == event_kind::kWorldFormed) out.world_size = json_int(*extra, "world_size", 0);
    if (event.kind == event_kind::kCheckpointSaved) {
      out.has_checkpoint = true;
      out.checkpoint_step = std::max(out.checkpoint_step, json_uint64(*extra, "step", 0));
    }
  }
  return out;
}

// What a run's nodes say they have, where they agree.
std::map<std::string, std::string> versions_of(const RunFacts& facts) {
  std::map<std::string, std::string> out;
  for (const NodeVersions& node : facts.versions) {
    for (const char* name : {"torch", "python", "shanty", "driver", "cuda", "nccl"}) {
      const auto at = node.values.find(name);
      if (at != node.values.end()) out[name] = at->second;
    }
  }
  return out;
}

}  // namespace

double usual_step_s(const RunFacts& facts) {
  if (facts.steps.empty()) return 0;
  double slowest = 0;
  for (const RankSeries& series : facts.steps.back().ranks) {
    std::vector<double> times;
    const size_t count = std::min(series.records.size(), kUsualSteps);
    for (size_t i = series.records.size() - count; i < series.records.size(); ++i) {
      times.push_back(series.records[i].step_us * 1e-6);
    }
    slowest = std::max(slowest, median_of(std::move(times)));
  }
  return slowest;
}

HangView view_of(const LiveState& live, const RunFacts& facts, int64_t now_unix_ns) {
  HangView view{.now_unix_ns = now_unix_ns,
                .usual_step_s = usual_step_s(facts),
                .source = facts.path + "/live.json"};
  for (const RankTelemetry& rank : live.ranks) {
    view.ranks.push_back({.rank = rank.rank,
                          .node_rank = rank.node_rank,
                          .node = host_of(facts, rank.node_rank),
                          .pid = rank.pid,
                          .alive = rank.alive,
                          .has_step = rank.has_step,
                          .step = rank.step,
                          .phase = rank.phase,
                          .phase_since_unix_ns = rank.phase_since_unix_ns,
                          .last_step_unix_ns = rank.last_step_unix_ns,
                          .cpu_cores = rank.cpu_cores});
  }
  return view;
}

std::vector<Finding> diagnose_live(const RunDir& run, const Clock& clock,
                                   const LiveOptions& options) {
  const TimePoint began = clock.now();
  int64_t first_seen = -1;
  for (;;) {
    const RunFacts facts = read_run(run);
    if (!facts.running || !facts.has_live) return diagnose_run(run);
    HangView view = view_of(facts.live, facts, clock.unix_time_ns());
    for (RankNow& rank : view.ranks) look_at_process(options.proc_root, rank);
    HangVerdict verdict = judge_hang(view);
    // It moves when a step is seen to be made: the last one may have been the last.
    if (first_seen < 0) first_seen = verdict.last_step_unix_ns;
    const bool moved = verdict.last_step_unix_ns > first_seen;
    const bool open =
        verdict.motion == Motion::kTooEarly || (verdict.motion == Motion::kMoving && !moved);
    const bool too_long = to_seconds(clock.now() - began) > kLongestWatchS;
    if (open && verdict.findings.empty() && !too_long) {
      options.wait(kLookEvery);
      continue;
    }
    std::vector<Finding> out = std::move(verdict.findings);
    if (out.empty()) {
      out.push_back(not_decided(verdict, facts));
      append(out, diagnose_slow(facts));
      append(out, audit_resumes(stretches_of(run, facts)));
    }
    return out;
  }
}

std::vector<Stretch> stretches_of(const RunDir& run, const RunFacts& facts) {
  std::vector<Stretch> out;
  for (const GenerationSteps& steps : facts.steps) {
    out.push_back(stretch_of(steps, facts));
    add_log(run, steps.generation, steps.ranks.front().rank, out.back());
  }
  return out;
}

std::vector<Finding> diagnose_run(const RunDir& run) {
  const RunFacts facts = read_run(run);
  std::vector<Finding> out = hang_at_the_end(facts);
  append(out, audit_resumes(stretches_of(run, facts)));
  append(out, diagnose_slow(facts));
  return out;
}

std::vector<Finding> compare_runs(std::span<const RunDir> runs) {
  std::vector<Finding> out;
  for (size_t i = 1; i < runs.size(); ++i) {
    const RunFacts a = read_run(runs[i - 1]);
    const RunFacts b = read_run(runs[i]);
    const bool larger_first = a.info.world_size() > b.info.world_size();
    append(out, larger_first ? compare_scaling(b, a) : compare_scaling(a, b));
    std::vector<Stretch> before = stretches_of(runs[i - 1], a);
    std::vector<Stretch> after = stretches_of(runs[i], b);
    if (before.empty() || after.empty()) continue;
    before.back().title = a.info.run_id;
    before.back().versions = versions_of(a);
    after.front().title = b.info.run_id;
    after.front().versions = versions_of(b);
    // Runs that both begin at the beginning are two runs, not one that goes on.
    const bool goes_on = after.front().points.empty() || before.front().points.empty() ||
                         after.front().points.front().step > before.front().points.front().step;
    if (goes_on) append(out, audit_resume(before.front(), before.back(), after.front()));
  }
  return out;
}

}  // namespace shanty
