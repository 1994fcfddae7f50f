#include "text/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

struct Part {
  std::string text;
  int dispensable = 0;  // the highest goes first when there is no room
  bool own_block = true;
};

double steps_left(const Progress& progress) {
  const uint64_t done = progress.step + 1;
  return progress.total_steps > done ? static_cast<double>(progress.total_steps - done) : 0;
}

std::string format_step_time(double step_s) {
  if (step_s < 1) return fmt::format("{:.3g} ms/step", step_s * 1e3);
  return fmt::format("{:.3g} s/step", step_s);
}

std::vector<Part> running_parts(const Progress& progress) {
  std::vector<Part> parts;
  if (progress.total_steps > 0) {
    const double share = 1 - steps_left(progress) / static_cast<double>(progress.total_steps);
    parts.push_back({fmt::format("step {}/{}", progress.step, progress.total_steps), 0});
    parts.push_back({fmt::format("{:.0f}%", std::floor(share * 100)), 5, false});
  } else {
    parts.push_back({fmt::format("step {}", progress.step), 0});
  }
  if (!std::isnan(progress.loss)) {
    parts.push_back({fmt::format("loss {:.4g}", progress.loss), 3, false});
  }
  if (!std::isnan(progress.samples_per_s)) {
    parts.push_back({format_count(std::round(progress.samples_per_s)) + " samples/s", 4});
  }
  if (progress.step_s > 0) parts.push_back({format_step_time(progress.step_s), 6});
  if (progress.total_steps > 0 && progress.step_s > 0) {
    parts.push_back({"ETA " + format_duration(steps_left(progress) * progress.step_s), 2});
  }
  return parts;
}

std::vector<Part> parts_of(const Progress& progress) {
  std::vector<Part> parts;
  if (progress.state == "running" && progress.has_step) {
    parts = running_parts(progress);
  } else {
    const bool silent = progress.text.empty();
    parts.push_back({progress.state + (silent ? "" : ": " + progress.text), 0});
  }
  if (progress.restarts > 0) parts.push_back({fmt::format("restarts {}", progress.restarts), 1});
  return parts;
}

std::string join(const std::vector<Part>& parts) {
  std::string out;
  for (const Part& part : parts) {
    if (!out.empty()) out += part.own_block ? " | " : " ";
    out += part.text;
  }
  return out;
}

}  // namespace

std::string format_progress(const Progress& progress, size_t width) {
  std::vector<Part> parts = parts_of(progress);
  std::string text = printable(join(parts));
  while (display_width(text) > width && parts.size() > 1) {
    const auto least = std::max_element(
        parts.begin(), parts.end(),
        [](const Part& a, const Part& b) { return a.dispensable < b.dispensable; });
    parts.erase(least);
    text = printable(join(parts));
  }
  return std::string(prefix_of_width(text, width));
}

ProgressLine::ProgressLine(std::function<TerminalTraits()> traits, const Clock& clock, Write write)
    : traits_(std::move(traits)), clock_(clock), write_(std::move(write)) {}

void ProgressLine::update(const Progress& progress) {
  const bool changed = !has_progress_ || progress.state != progress_.state ||
                       progress.text != progress_.text || progress.restarts != progress_.restarts;
  progress_ = progress;
  has_progress_ = true;
  const Duration since = clock_.now() - last_draw_;
  const Duration every = traits_().tty ? kRedrawEvery : kPlainEvery;
  if (changed || since >= every) draw();
}

void ProgressLine::draw() {
  if (finished_ || !has_progress_) return;
  const TerminalTraits traits = traits_();
  last_draw_ = clock_.now();
  if (!traits.tty) {
    write_(fmt::format("shanty {}  {}\n", format_local_time_of_day(clock_.unix_time_ns()),
                       format_progress(progress_, std::string::npos)));
    return;
  }
  // The last column stays free: a full line would wrap and could not be taken away again.
  const auto width = static_cast<size_t>(std::max(traits.width, 2) - 1);
  write_(std::string(kEraseLine) + format_progress(progress_, width));
  drawn_ = true;
}

void ProgressLine::erase() {
  if (drawn_) write_(kEraseLine);
  drawn_ = false;
}

void ProgressLine::around(const std::function<void()>& write_lines) {
  const bool redraw = drawn_;
  erase();
  write_lines();
  if (redraw) draw();
}

void ProgressLine::print(std::string_view lines) {
  around([this, lines] { write_(lines); });
}

void ProgressLine::finish() {
  erase();
  finished_ = true;
}

}  // namespace shanty
