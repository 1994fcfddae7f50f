#include "telemetry/report_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "run/terminal_text.h"

namespace shanty {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kReset = "\x1b[0m";
constexpr double kShownFromSeconds = 0.05;
constexpr int kCauseColumns = 19;
constexpr int kNumberColumns = 22;
constexpr int kMaxBarColumns = 30;

class Renderer {
 public:
  Renderer(const Report& report, const ReportRenderOptions& options)
      : report_(report), options_(options), width_(std::max(options.width, kMinReportWidth)) {}

  std::string render() {
    head();
    failures();
    times();
    steps();
    places();
    notes();
    return std::move(out_);
  }

 private:
  std::string paint(std::string_view text, std::string_view style) const {
    if (!options_.colour) return std::string(text);
    return fmt::format("{}{}{}", style, text, kReset);
  }

  // One line of plain text, cut to the width at a character's border.
  std::string fit(std::string_view text) const {
    const auto width = static_cast<size_t>(width_);
    size_t columns = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool starts_character = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
      if (starts_character && columns++ == width) return std::string(text.substr(0, i));
    }
    return std::string(text);
  }

  void line(std::string_view text) { out_ += fit(text) + "\n"; }

  void head() {
    const bool good = report_.outcome == "succeeded";
    const bool open = report_.outcome == "running";
    std::string text = fmt::format("{} {}", escape_for_terminal(report_.job_name),
                                   open ? "is running" : report_.outcome);
    text += fmt::format(" {} {}", open ? "for" : "after", format_duration(report_.wall_time_s));
    out_ += paint(fit(text), good ? kGreen : open ? kBold : kRed) + "\n";
    if (!good && !report_.reason.empty()) line("  " + escape_for_terminal(report_.reason));
    line(fmt::format("  {}, {}, {}, {}", count(report_.nodes, "node"),
                     count(report_.world_size, "rank"),
                     count(static_cast<int64_t>(report_.generations), "generation"),
                     count(static_cast<int64_t>(report_.failures.size()), "failure")));
  }

  static std::string count(int64_t number, std::string_view noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
  }

  void failures() {
    const auto& all = report_.failures;
    const size_t shown = std::min(all.size(), kMaxShownFailures);
    for (size_t i = all.size() - shown; i < all.size(); ++i) one_failure(all[i]);
    if (shown < all.size()) line(fmt::format("  and {} earlier", all.size() - shown));
  }

  void one_failure(const ReportFailure& failure) {
    std::string who = failure.rank >= 0 ? fmt::format("rank {}", failure.rank) : "node";
    if (failure.rank < 0 && failure.node_rank >= 0) who += fmt::format(" {}", failure.node_rank);
    if (!failure.node.empty()) who += " on " + failure.node;
    std::string text = fmt::format("  {}  generation {}: {} {}",
                                   format_local_time_of_day(failure.unix_ns), failure.generation,
                                   escape_for_terminal(who), escape_for_terminal(failure.reason));
    if (failure.has_step) text += fmt::format(", after step {}", failure.step);
    line(text);
    if (!failure.first_error.empty()) {
      line("            " + escape_for_terminal(first_line(failure.first_error)));
    }
  }

  static std::string_view first_line(std::string_view text) {
    return text.substr(0, text.find('\n'));
  }

  void times() {
    time_line("useful", report_.useful_time_s);
    for (const ReportLoss& loss : report_.losses) {
      if (loss.seconds >= kShownFromSeconds) time_line(loss.cause, loss.seconds);
    }
  }

  void time_line(std::string_view cause, double seconds) {
    const double share = report_.wall_time_s > 0 ? seconds / report_.wall_time_s : 0;
    const int room = std::min(width_ - kCauseColumns - kNumberColumns - 2, kMaxBarColumns);
    const std::string number =
        fmt::format("{:>12}  {:>5.1f} % ", format_duration(seconds), share * 100);
    const std::string text = fmt::format("  {:<{}}{}", cause, kCauseColumns, number);
    out_ += fit(text);
    if (room > 0) out_ += paint(bar(share, room), cause == "useful" ? kGreen : kDim);
    out_ += "\n";
  }

  std::string bar(double share, int room) const {
    const auto cells = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * room));
    std::string text;
    for (int i = 0; i < cells; ++i) text += options_.utf8 ? "█" : "#";
    return text;
  }

  void steps() {
    if (!report_.has_steps) return line("  no steps were seen");
    std::string text = "  " + count(static_cast<int64_t>(report_.steps), "step");
    if (report_.repeated_steps > 0) {
      text += fmt::format(" and {} done again", report_.repeated_steps);
    }
    if (!std::isnan(report_.samples_per_s)) {
      text += fmt::format(", {} samples/s", format_count(std::round(report_.samples_per_s)));
    }
    if (!std::isnan(report_.final_loss)) text += fmt::format(", loss {:.4g}", report_.final_loss);
    line(text);
  }

  // Paths are never cut: they are there to be copied.
  void places() {
    if (report_.checkpoints_saved > 0) {
      std::string text =
          "  " + count(static_cast<int64_t>(report_.checkpoints_saved), "checkpoint") + " saved";
      if (const SavedFile* usable = newest_usable(report_)) {
        text += fmt::format(", the newest usable one, of step {}, is {}", usable->step,
                            escape_for_terminal(usable->path));
      }
      out_ += text + "\n";
    }
    for (const SavedFile& saved : report_.checkpoints) {
      if (saved.state != SavedState::kDamaged) continue;
      out_ += fmt::format("  damaged checkpoint {}: {}\n", escape_for_terminal(saved.path),
                          saved.problem);
    }
    out_ += "  logs in " + escape_for_terminal(report_.logs) + "\n";
  }

  void notes() {
    const size_t shown = std::min(report_.notes.size(), kMaxShownNotes);
    for (size_t i = 0; i < shown; ++i) {
      line("  note: " + escape_for_terminal(first_line(report_.notes[i])));
    }
    if (shown < report_.notes.size()) {
      line(fmt::format("  and {} more notes in the report file", report_.notes.size() - shown));
    }
  }

  const Report& report_;
  const ReportRenderOptions& options_;
  int width_;
  std::string out_;
};

}  // namespace

std::string render_report(const Report& report, const ReportRenderOptions& options) {
  return Renderer(report, options).render();
}

}  // namespace shanty
