#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "doctor/rule.h"
#include "doctor/run/resume.h"
#include "doctor/run/step_lines.h"
#include "logs/pattern.h"

namespace shanty {
namespace {

// Below what a run directory's own records say of the same.
constexpr double kOfLines = 0.95;
constexpr uint64_t kLinesOfOneStart = 200;

using Place = std::pair<uint32_t, uint64_t>;  // file and line

// The lines that tell of a start, in the order of the files.
std::map<Place, const Record*> starts_of(const Case& of) {
  std::map<Place, const Record*> out;
  for (const Record* record : of.every("resumed"))
    out.emplace(Place(record->file, record->line), record);
  return out;
}

// Why `now` is of another start of the job than `before`, of the same rank; empty: it is not.
std::string new_start(const Case& of, const std::map<Place, const Record*>& starts,
                      const Record& before, const Record& now) {
  const std::string& file = of.book().files[now.file].name;
  const auto told = starts.upper_bound(Place(now.file, now.file == before.file ? before.line : 0));
  if (told != starts.end() && told->first < Place(now.file, now.line)) {
    return fmt::format("{} from line {}", file, told->second->line);
  }
  if (now.file != before.file) return file;
  if (now.generation != before.generation) return fmt::format("start {}", now.generation + 1);
  return "";
}

void add_point(Stretch& stretch, const StepLine& line, uint64_t at) {
  const uint64_t last = stretch.points.empty() ? 0 : stretch.points.back().step;
  // Trainers that tell no step: one line after the other.
  stretch.counted_from_start &= line.has_step;
  stretch.points.push_back({.step = line.has_step ? line.step : last + 1,
                            .loss = line.loss,
                            .lr = line.lr,
                            .epoch = line.epoch,
                            .samples_hash = line.samples_hash,
                            .line = at});
  if (stretch.world_size == 0 && line.world_size > 0 && line.world_size < 1e7) {
    stretch.world_size = static_cast<int>(line.world_size);
  }
  if (stretch.batch == 0 && line.batch > 0) stretch.batch = line.batch;
}

// What one rank (the first that prints steps, told in `rank`) did between two starts, as its lines
// tell it.
std::vector<Stretch> stretches_of(const Case& of, int& rank) {
  std::vector<Stretch> out;
  const auto starts = starts_of(of);
  const Record* before = nullptr;
  for (const Record& each : of.book().records) {
    const Record* record = &each;
    if (each.event != "step" && each.event != "loss_line") continue;
    if (before && each.rank != before->rank) continue;
    const auto line = parse_step_line(each.text);
    if (!line || (std::isnan(line->loss) && std::isnan(line->lr))) continue;
    const std::string start =
        before ? new_start(of, starts, *before, *record) : of.book().files[record->file].name;
    if (!start.empty()) {
      out.push_back(
          {.title = start, .file = of.book().files[record->file].name, .counted_from_start = true});
    }
    add_point(out.back(), *line, record->line);
    before = record;
    rank = record->rank;
  }
  return out;
}

// Logs of two nodes, or of two jobs, do not go on with each other; nor does a script that counts
// from each start anew tell where it is.
void drop_what_does_not_go_on(std::vector<Stretch>& stretches) {
  for (size_t i = 1; i < stretches.size(); ++i) {
    Stretch& now = stretches[i];
    const Stretch& before = stretches[i - 1];
    const bool begins_anew = now.points.front().step <= stretches.front().points.front().step;
    if (!begins_anew) continue;
    now.counted_from_start = false;
    if (now.file != before.file) now.points.clear();
  }
  std::erase_if(stretches, [](const Stretch& stretch) { return stretch.points.empty(); });
}

void told(const Case& of, Hypotheses& out) {
  const Records lines = of.every("state_missing");
  if (lines.empty()) return;
  Draft draft(of, "RES101", "resume_state", 0.85);
  draft.severity(Severity::kWarning).show(lines).blame(lines);
  draft.message("a part of the state was not restored: " + said(*lines.front()));
  draft.rule_out("a damaged checkpoint: that raises, this does not");
  draft.fix(
      "save and load model, optimizer, scheduler, RNG of every rank and the sampler's position");
  draft.prevent("shanty.Checkpointer saves all of them");
  out.push_back(draft.done());
}

// "resuming from step 134000": the unit and the number.
std::optional<std::pair<std::string, int64_t>> told_start(const Record& record) {
  static const auto* pattern = new Pattern(
      R"~((?i)\bresum(?:ing|ed)\b.{0,40}?\b(?:from|at) (?:global )?(?P<unit>step|iteration|iter|epoch)s?[ :=]{1,3}(?P<number>\d{1,12})\b)~");
  Captures captures;
  if (!pattern->find(record.text, captures)) return std::nullopt;
  return std::make_pair(
      std::string(capture(captures, "unit")),
      std::strtoll(std::string(capture(captures, "number")).c_str(), nullptr, 10));
}

// The job tells twice where it goes on, and not the same: two parts of it count differently.
void two_starts(const Case& of, Hypotheses& out) {
  const auto starts = starts_of(of);
  const Record* before = nullptr;
  std::optional<std::pair<std::string, int64_t>> told_before;
  for (const Record& record : of.book().records) {
    const bool is_step = record.event == "step" || record.event == "loss_line";
    if (is_step && !starts.contains(Place(record.file, record.line))) before = nullptr;
    if (record.event != "resumed") continue;
    const auto told = told_start(record);
    if (!told) continue;
    const bool same_start = before && before->file == record.file && before->rank == record.rank &&
                            before->generation == record.generation && record.line > before->line &&
                            record.line - before->line <= kLinesOfOneStart;
    // One apart: the last that is done, and the next.
    if (same_start && told_before->first == told->first &&
        std::abs(told_before->second - told->second) > 1) {
      Draft draft(of, "RES104", "resume_state", 0.75);
      draft.severity(Severity::kWarning).show(before).show(&record).blame(&record);
      draft.message(
          fmt::format("the job goes on from {0} {1} and from {0} {2} at once: steps are "
                      "counted differently where they are saved and where they are read",
                      told->first, told_before->second, told->second));
      draft.rule_out("a damaged checkpoint: that raises, this does not");
      draft.fix("is one of them per rank or per micro-batch? Save the number that is loaded");
      out.push_back(draft.done());
      return;
    }
    before = &record;
    told_before = told;
  }
}

void jumps(const Case& of, Hypotheses& out) {
  int rank = -1;
  std::vector<Stretch> stretches = stretches_of(of, rank);
  drop_what_does_not_go_on(stretches);
  for (Finding& finding : audit_resumes(stretches)) {
    finding.confidence *= kOfLines;
    if (rank >= 0) finding.subject.ranks = {rank};
    for (const Record* record : of.every("resumed")) {
      if (finding.evidence.size() < Draft::kMaxShown)
        finding.evidence.push_back(of.evidence(*record));
    }
    out.push_back({.finding = std::move(finding), .nearness = Nearness::kStructure});
  }
}

}  // namespace

void resume_state_rule(const Case& of, Hypotheses& out) {
  told(of, out);
  two_starts(of, out);
  jumps(of, out);
}

}  // namespace shanty
