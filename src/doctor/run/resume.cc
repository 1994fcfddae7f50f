#include "doctor/run/resume.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "doctor/run/robust.h"

namespace shanty {
namespace {

constexpr double kJumpNoises = 4;     // a jump is more than so many spreads
constexpr double kLeastJump = 0.05;   // and more than this part of the loss
constexpr double kBackToStart = 0.7;  // of the way back to the first losses: nothing was loaded
constexpr double kRateChange = 0.05;
constexpr double kLeastBatchChange = 0.01;

std::vector<double> losses_of(std::span<const ResumePoint> points) {
  std::vector<double> losses;
  for (const ResumePoint& point : points) {
    if (std::isfinite(point.loss)) losses.push_back(point.loss);
  }
  return losses;
}

std::span<const ResumePoint> head(const std::vector<ResumePoint>& points) {
  return std::span(points).first(std::min(points.size(), kResumeWindow));
}

// What came right before step `next`.
std::span<const ResumePoint> tail_before(const std::vector<ResumePoint>& points, uint64_t next) {
  size_t end = points.size();
  while (end > 0 && points[end - 1].step >= next) --end;
  const size_t begin = end > kResumeWindow ? end - kResumeWindow : 0;
  return std::span(points).subspan(begin, end - begin);
}

// From one value to the next, in the middle: noise without the trend.
double roughness_of(const std::vector<double>& values) {
  std::vector<double> steps;
  for (size_t i = 1; i < values.size(); ++i) steps.push_back(std::abs(values[i] - values[i - 1]));
  return median_of(steps);
}

class Audit {
 public:
  Audit(const Stretch& first, const Stretch& before, const Stretch& after)
      : first_(first), before_(before), after_(after) {}

  std::vector<Finding> run() {
    if (!before_.points.empty() && !after_.points.empty()) {
      const bool loaded = check_steps();
      check_loss(loaded);
      check_rate();
      check_samples();
    }
    check_world();
    check_versions();
    return std::move(out_);
  }

 private:
  Finding start(const char* code, Severity severity, double confidence) const {
    Finding out;
    out.code = code;
    out.severity = severity;
    out.failure_class = "resume_state";
    out.confidence = confidence;
    out.subject.files = {before_.file};
    if (after_.file != before_.file) out.subject.files.push_back(after_.file);
    return out;
  }

  Evidence evidence(const Stretch& stretch, const ResumePoint& point) const {
    std::string text = fmt::format("{}: step {}", stretch.title, point.step);
    if (std::isfinite(point.loss)) text += fmt::format(", loss {:.4g}", point.loss);
    if (std::isfinite(point.lr)) text += fmt::format(", lr {:.4g}", point.lr);
    return {stretch.file, point.line, text};
  }

  void add_seam(Finding& out) const {
    out.evidence.push_back(evidence(before_, before_.points.back()));
    out.evidence.push_back(evidence(after_, after_.points.front()));
  }

  bool numbers_compare() const { return before_.counted_from_start && after_.counted_from_start; }

  // Whether the numbers say that something was loaded.
  bool check_steps() {
    const uint64_t last = before_.points.back().step;
    const uint64_t next = after_.points.front().step;
    const uint64_t began = first_.points.empty() ? 0 : first_.points.front().step;
    if (!numbers_compare()) return true;
    if (next <= began && last > began + kResumeWindow) {
      Finding out = start("RES104", before_.has_checkpoint ? Severity::kError : Severity::kWarning,
                          before_.has_checkpoint ? 0.9 : 0.7);
      out.message = fmt::format(
          "{} begins at step {} again after {} had come to step {}: nothing was "
          "loaded{}",
          after_.title, next, before_.title, last, checkpoint_text());
      add_seam(out);
      out_.push_back(std::move(out));
      return false;
    }
    if (next > last + 1) {
      // Logs tell every n-th step only; then a gap of one interval is none.
      if (next - last <= 2 * interval()) return true;
      Finding out = start("RES104", Severity::kWarning, 0.85);
      out.message = fmt::format("steps {} to {} were never done: {} ends at {}, {} begins at {}",
                                last + 1, next - 1, before_.title, last, after_.title, next);
      add_seam(out);
      out_.push_back(std::move(out));
    } else if (before_.has_checkpoint && next + 1 < before_.checkpoint_step) {
      Finding out = start("RES104", Severity::kWarning, 0.85);
      out.message = fmt::format(
          "{} goes on at step {}, though {} saved a checkpoint at step {}: an older "
          "one was loaded and {} steps are done twice",
          after_.title, next, before_.title, before_.checkpoint_step, last - next + 1);
      add_seam(out);
      out_.push_back(std::move(out));
    }
    return true;
  }

  std::string checkpoint_text() const {
    if (!before_.has_checkpoint) return " (no checkpoint was seen either)";
    return fmt::format(", though a checkpoint of step {} had been saved", before_.checkpoint_step);
  }

  // Between two points of the log.
  uint64_t interval() const {
    const auto& points = before_.points.size() > 1 ? before_.points : after_.points;
    if (points.size() < 2) return 1;
    return std::max<uint64_t>(1, points[points.size() - 1].step - points[points.size() - 2].step);
  }

  void check_loss(bool loaded) {
    const uint64_t next = numbers_compare() && loaded ? after_.points.front().step : ~uint64_t{0};
    const auto old_losses = losses_of(tail_before(before_.points, next));
    auto new_losses = losses_of(head(after_.points));
    // What was lost may be learnt anew within the window.
    new_losses.resize(std::min(new_losses.size(), kMinResumePoints));
    if (old_losses.size() < kMinResumePoints || new_losses.size() < kMinResumePoints) return;
    const double was = median_of(old_losses);
    const double is = median_of(new_losses);
    const double noise = std::max(spread_of(old_losses), roughness_of(new_losses));
    const double jump = is - was;
    if (!(jump > kJumpNoises * noise) || jump < kLeastJump * std::abs(was)) return;
    Finding out = start("RES101", loaded ? Severity::kError : Severity::kWarning, 0.85);
    const auto first_losses = losses_of(head(first_.points));
    const double origin = median_of(first_losses);
    const bool lower = first_losses.size() >= kMinResumePoints && origin > was;
    const bool back = lower && jump >= kBackToStart * (origin - was);
    out.message =
        fmt::format("the loss jumps from {:.4g} to {:.4g} where {} goes on after {}: {}", was, is,
                    after_.title, before_.title,
                    back ? fmt::format("it is back near the beginning ({:.4g}), so the weights "
                                       "were not loaded",
                                       origin)
                         : "the weights are loaded, but not all that belongs to them");
    out.ruled_out.push_back(fmt::format("noise: the losses around it spread by {:.2g}", noise));
    if (!back) {
      out.ruled_out.push_back(
          "cannot tell: optimizer state, learning rate, data order or dropout's "
          "random state; the optimizer's is missing where the loss needs hundreds of "
          "steps to come down again, the others where it needs few");
      out.fix = {
          "compare what the checkpoint holds with what the script restores: model, optimizer, "
          "scheduler, scaler, sampler epoch, random states (shanty ckpt diff)"};
    } else {
      out.fix = {
          "look whether the script loads the checkpoint at all, and into the model it then trains "
          "(before wrapping, with the names as saved)"};
    }
    add_seam(out);
    out_.push_back(std::move(out));
  }

  static const ResumePoint* first_with_rate(const std::vector<ResumePoint>& points) {
    const auto at = std::find_if(points.begin(), points.end(),
                                 [](const ResumePoint& p) { return std::isfinite(p.lr); });
    return at == points.end() ? nullptr : &*at;
  }

  void check_rate() {
    const ResumePoint* now = first_with_rate(after_.points);
    const ResumePoint* began = first_with_rate(first_.points);
    const ResumePoint* then = nullptr;
    for (const ResumePoint& point : before_.points) {
      if (!std::isfinite(point.lr)) continue;
      if (then != nullptr && now != nullptr && point.step > now->step && numbers_compare()) break;
      then = &point;
    }
    if (now == nullptr || then == nullptr || began == nullptr) return;
    const double change = std::abs(now->lr - then->lr) / std::max(std::abs(then->lr), 1e-30);
    // What the schedule itself does in one interval is no reset.
    const double usual = usual_rate_change();
    if (change <= kRateChange || change <= 3 * usual) return;
    const bool restarted = std::abs(now->lr - began->lr) <= kRateChange * std::abs(began->lr);
    // A schedule may well drop its rate here; it hardly ever raises it.
    const bool raised = now->lr > then->lr;
    Finding out = start("RES102", restarted || raised ? Severity::kError : Severity::kWarning,
                        restarted ? 0.9
                        : raised  ? 0.75
                                  : 0.5);
    out.message =
        fmt::format("the learning rate goes from {:.4g} to {:.4g} where {} goes on{}", then->lr,
                    now->lr, after_.title, restarted ? ": its schedule begins anew" : "");
    out.ruled_out.push_back(
        fmt::format("the schedule: it changes by at most {:.1f} % from one line to the "
                    "next",
                    100 * usual));
    out.evidence = {evidence(before_, *then), evidence(after_, *now)};
    out_.push_back(std::move(out));
  }

  // The largest step that the schedule itself makes near the seam.
  double usual_rate_change() const {
    std::vector<double> rates;
    for (const ResumePoint& point : before_.points) {
      if (std::isfinite(point.lr)) rates.push_back(point.lr);
    }
    double most = 0;
    for (size_t i = rates.size() > kResumeWindow ? rates.size() - kResumeWindow : 1;
         i < rates.size(); ++i) {
      most = std::max(most, std::abs(rates[i] - rates[i - 1]) / std::max(rates[i - 1], 1e-30));
    }
    return most;
  }

  // The samples of the first steps come again in the same order: the sampler begins anew.
  void check_samples() {
    size_t same = 0;
    size_t told = 0;
    const auto a = head(first_.points);
    const auto b = head(after_.points);
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (a[i].samples_hash == 0 || b[i].samples_hash == 0) continue;
      ++told;
      same += a[i].samples_hash == b[i].samples_hash ? 1 : 0;
    }
    const bool went_on = after_.points.front().step > first_.points.front().step;
    if (told < kMinResumePoints || same < told || !went_on) return;
    Finding out = start("RES103", Severity::kWarning, 0.9);
    out.message = fmt::format(
        "{} goes on at step {} with the samples that the job began with: the "
        "sampler's place and its random state were not restored",
        after_.title, after_.points.front().step);
    out.evidence = {evidence(first_, a.front()), evidence(after_, b.front())};
    out_.push_back(std::move(out));
  }

  void check_world() {
    const bool world =
        before_.world_size > 0 && after_.world_size > 0 && before_.world_size != after_.world_size;
    const bool batch = before_.batch > 0 && after_.batch > 0 &&
                       std::abs(after_.batch - before_.batch) > kLeastBatchChange * before_.batch;
    if (!world && !batch) return;
    Finding out = start("RES105", batch ? Severity::kWarning : Severity::kNote, 0.95);
    out.message = fmt::format("{} goes on with another {}:", after_.title,
                              batch ? "global batch" : "world size");
    if (world)
      out.message += fmt::format(" {} ranks instead of {}", after_.world_size, before_.world_size);
    if (batch) {
      out.message += fmt::format("{} {:.0f} samples a step instead of {:.0f}", world ? "," : "",
                                 after_.batch, before_.batch);
    }
    out.evidence = {{after_.file, 0, after_.title}};
    if (batch)
      out.fix = {"keep the global batch by accumulation, or scale the learning rate with it"};
    out_.push_back(std::move(out));
  }

  void check_versions() {
    std::string changes;
    for (const auto& [name, was] : before_.versions) {
      const auto now = after_.versions.find(name);
      if (now == after_.versions.end() || now->second == was) continue;
      changes +=
          fmt::format("{}{} {} instead of {}", changes.empty() ? "" : ", ", name, now->second, was);
    }
    if (changes.empty()) return;
    Finding out = start("RES106", Severity::kWarning, 0.9);
    out.message = fmt::format("{} runs with {} (before)", after_.title, changes);
    out.evidence = {{after_.file, 0, after_.title + ": " + changes}};
    out_.push_back(std::move(out));
  }

  const Stretch& first_;
  const Stretch& before_;
  const Stretch& after_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> audit_resume(const Stretch& first, const Stretch& before,
                                  const Stretch& after) {
  return Audit(first, before, after).run();
}

std::vector<Finding> audit_resumes(std::span<const Stretch> stretches) {
  std::vector<Finding> out;
  for (size_t i = 1; i < stretches.size(); ++i) {
    for (Finding& finding : audit_resume(stretches.front(), stretches[i - 1], stretches[i])) {
      out.push_back(std::move(finding));
    }
  }
  return out;
}

}  // namespace shanty
