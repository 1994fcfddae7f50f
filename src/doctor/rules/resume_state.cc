#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr size_t kFewSteps = 3;
constexpr double kJump = 1.25;       // times the loss before
constexpr double kLearningRate = 2;  // times more or less than before

struct Point {
  const Record* line = nullptr;
  int64_t step = 0;
  double loss = std::nan("");
  double lr = std::nan("");
};

double number_after(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    if (at > 0 && std::isalpha(static_cast<unsigned char>(text[at - 1]))) continue;
    size_t from = at + key.size();
    while (from < text.size() && std::string_view(" :='\"").find(text[from]) != text.npos) ++from;
    const std::string rest(text.substr(from, 32));
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    if (end != rest.c_str()) return value;
  }
  return std::nan("");
}

// Steps with a loss of one rank (the first that prints any), in their order.
std::vector<Point> course(const Case& of) {
  std::vector<Point> out;
  int rank = -2;
  for (const Record* record : of.every("step")) {
    if (rank == -2) rank = record->rank;
    if (record->rank != rank) continue;
    Point point{
        .line = record, .step = record->number("step"), .loss = std::nan(""), .lr = std::nan("")};
    point.loss = number_after(record->text, "loss");
    for (const auto key : {"learning_rate", "learning rate", "lr"}) {
      if (std::isnan(point.lr)) point.lr = number_after(record->text, key);
    }
    if (!std::isnan(point.loss)) out.push_back(point);
  }
  return out;
}

// Where a run was taken up again: a line says so, or the file or the generation changes.
std::optional<size_t> resume_point(const Case& of, const std::vector<Point>& points) {
  for (size_t i = kFewSteps; i + 1 < points.size(); ++i) {
    const Record& before = *points[i - 1].line;
    const Record& now = *points[i].line;
    bool resumed =
        now.generation != before.generation || (now.file != before.file && now.rank == before.rank);
    for (const Record* record : of.every("resumed")) {
      const bool after = record->file == before.file ? record->line > before.line
                                                     : record->unix_ns >= before.unix_ns;
      const bool until =
          record->file == now.file ? record->line < now.line : record->unix_ns <= now.unix_ns;
      resumed |= after && until && record->file == now.file;
    }
    if (resumed) return i;
  }
  return std::nullopt;
}

void told(const Case& of, Hypotheses& out) {
  const Records lines = of.every("state_missing");
  if (lines.empty()) return;
  Draft draft(of, "RES101", "resume_state", 0.85);
  draft.severity(Severity::kWarning).show(lines).blame(lines);
  draft.message("a part of the state was not restored: " + lines.front()->text.substr(0, 140));
  draft.rule_out("a damaged checkpoint: that raises, this does not");
  draft.fix(
      "save and load model, optimizer, scheduler, RNG of every rank and the sampler's position");
  draft.prevent("shanty.Checkpointer saves all of them");
  out.push_back(draft.done());
}

void jumps(const Case& of, Hypotheses& out) {
  const std::vector<Point> points = course(of);
  const auto at = resume_point(of, points);
  if (!at) return;
  const size_t i = *at;
  double before = 0;
  double noise = 0;
  for (size_t k = i - kFewSteps; k < i; ++k) before += points[k].loss / kFewSteps;
  for (size_t k = i - kFewSteps; k < i; ++k) {
    noise = std::max(noise, std::abs(points[k].loss - before));
  }
  const Point& now = points[i];
  const Point& last = points[i - 1];
  const bool loss = now.loss > before * kJump && now.loss > before + 4 * noise;
  const bool lr = !std::isnan(now.lr) && !std::isnan(last.lr) && last.lr > 0 &&
                  (now.lr > last.lr * kLearningRate || now.lr * kLearningRate < last.lr);
  const bool back = now.step + 1 < last.step;
  const bool ahead =
      now.step > last.step + std::max<int64_t>(1, last.step - points[i - 2].step) * 2;
  if (!loss && !lr && !ahead) return;
  const char* code = lr ? "RES102" : loss ? "RES101" : "RES104";
  Draft draft(of, code, "resume_state", loss && lr ? 0.85 : 0.75, Nearness::kStructure);
  draft.severity(Severity::kWarning).show(last.line).show(now.line).blame(now.line);
  draft.show(of.every("resumed"));
  draft.message(
      lr     ? fmt::format("the learning rate is {:g} after the resume, it was {:g}: the "
                               "scheduler was not restored",
                           now.lr, last.lr)
      : loss ? fmt::format("the loss jumps from {:.3g} to {:.3g} at the resume: the "
                           "optimizer's state or the data order was not restored",
                           before, now.loss)
             : fmt::format("steps {} to {} were skipped at the resume", last.step, now.step));
  if (back) draft.rule_out("steps done again: the loss is compared with that of the same phase");
  draft.rule_out("a damaged checkpoint: that raises, this does not");
  draft.fix(
      "does the checkpoint hold the optimizer, scheduler, RNG and sampler? load all of them "
      "before the first step");
  out.push_back(draft.done());
}

}  // namespace

void resume_state_rule(const Case& of, Hypotheses& out) {
  told(of, out);
  jumps(of, out);
}

}  // namespace shanty
