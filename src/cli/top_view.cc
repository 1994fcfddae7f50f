#include "cli/top_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "telemetry/live_line.h"
#include "text/progress.h"
#include "text/table.h"
#include "text/terminal.h"
#include "text/utf8.h"

namespace shanty {
namespace {

constexpr double kStaleAfterSeconds = 5;

struct Moment {
  int64_t now_unix_ns;
  bool over;  // the run ended: nothing lasts any more
};

struct Column {
  std::string_view title;
  int dispensable;  // the highest goes first when the terminal is narrow
  bool right;
  std::string (*cell)(const RankTelemetry& rank, const Moment& moment);
};

std::string milliseconds(double seconds) {
  if (std::isnan(seconds)) return "-";
  const double ms = seconds * 1e3;
  return ms < 99.95 ? fmt::format("{:.1f}", ms) : fmt::format("{:.0f}", ms);
}

std::string of_step(const RankTelemetry& rank, double seconds) {
  return rank.has_step ? milliseconds(seconds) : "-";
}

double other_s(const RankTelemetry& rank) {
  const double known =
      rank.data_s + rank.forward_s + rank.backward_s + rank.optimizer_s + rank.checkpoint_s;
  return std::max(0.0, rank.step_s - known);
}

std::string phase_cell(const RankTelemetry& rank, const Moment& moment) {
  if (!rank.alive) return "ended";
  if (!rank.hooks_off_reason.empty()) return "hooks off";
  if (!rank.hooked) return "starting";
  if (rank.phase_since_unix_ns == 0 || moment.over) return rank.phase;
  const double for_s = std::max(0.0, ns_to_seconds(moment.now_unix_ns - rank.phase_since_unix_ns));
  return fmt::format("{} {}", rank.phase, format_duration(for_s));
}

std::string step_cell(const RankTelemetry& rank) {
  return rank.has_step ? fmt::format("{}", rank.step) : "-";
}

const std::vector<Column>& columns() {
  using Rank = const RankTelemetry&;
  using When = const Moment&;
  static const std::vector<Column> all = {
      {"RANK", 0, true, [](Rank r, When) { return fmt::format("{}", r.rank); }},
      {"NODE", 7, true, [](Rank r, When) { return fmt::format("{}", r.node_rank); }},
      {"PID", 12, true, [](Rank r, When) { return fmt::format("{}", r.pid); }},
      {"PHASE", 1, false, phase_cell},
      {"STEP", 0, true, [](Rank r, When) { return step_cell(r); }},
      {"MS/STEP", 2, true, [](Rank r, When) { return of_step(r, r.step_s); }},
      {"DATA", 3, true, [](Rank r, When) { return of_step(r, r.data_s); }},
      {"FWD", 8, true, [](Rank r, When) { return of_step(r, r.forward_s); }},
      {"BWD", 8, true, [](Rank r, When) { return of_step(r, r.backward_s); }},
      {"OPT", 8, true, [](Rank r, When) { return of_step(r, r.optimizer_s); }},
      {"OTHER", 9, true, [](Rank r, When) { return of_step(r, other_s(r)); }},
      {"SAMPLES/S", 6, true,
       [](Rank r, When) {
         return std::isnan(r.samples_per_s) ? "-" : format_count(std::round(r.samples_per_s));
       }},
      {"LOSS", 11, true,
       [](Rank r, When) { return std::isnan(r.loss) ? "-" : fmt::format("{:.4g}", r.loss); }},
      {"MEMORY", 5, true, [](Rank r, When) { return format_bytes(r.rss_bytes); }},
      {"CPU", 4, true, [](Rank r, When) { return fmt::format("{:.0f}%", r.cpu_cores * 100); }},
      {"PROCS", 12, true, [](Rank r, When) { return fmt::format("{}", r.processes); }},
  };
  return all;
}

std::string table_of(const std::vector<Column>& shown, const std::vector<RankTelemetry>& ranks,
                     const Moment& moment) {
  Table table;
  for (const Column& column : shown) {
    table.header.emplace_back(column.title);
    table.right_aligned.push_back(column.right);
  }
  for (const RankTelemetry& rank : ranks) {
    auto& row = table.rows.emplace_back();
    for (const Column& column : shown) row.push_back(column.cell(rank, moment));
  }
  return format_table(table);
}

size_t widest_line(std::string_view text) {
  size_t widest = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    widest = std::max(widest, display_width(line));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return widest;
}

std::string fitting_table(const std::vector<RankTelemetry>& ranks, const Moment& moment,
                          size_t width) {
  std::vector<Column> shown = columns();
  std::string text = table_of(shown, ranks, moment);
  while (widest_line(text) > width) {
    int most = 0;
    for (const Column& column : shown) most = std::max(most, column.dispensable);
    if (most == 0) break;
    std::erase_if(shown, [most](const Column& column) { return column.dispensable == most; });
    text = table_of(shown, ranks, moment);
  }
  return text;
}

double known(double value) { return std::isnan(value) ? 0 : value; }

std::string summary_of_rest(const std::vector<RankTelemetry>& ranks, size_t first) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  uint64_t highest = 0;
  double sum_s = 0;
  for (size_t i = first; i < ranks.size(); ++i) {
    lowest = std::min(lowest, ranks[i].step);
    highest = std::max(highest, ranks[i].step);
    sum_s += known(ranks[i].step_s);
  }
  const auto count = static_cast<double>(ranks.size() - first);
  return fmt::format("and {} faster ranks at steps {} to {}, {} ms/step on average\n",
                     ranks.size() - first, lowest, highest, milliseconds(sum_s / count));
}

Progress progress_of(const RunSummary& run, const LiveState& live) {
  const JobProgress job = summarize(live.ranks);
  Progress progress;
  progress.state = run.state;
  progress.text = run.text;
  progress.has_step = job.has_step;
  progress.step = job.step;
  progress.total_steps = job.total_steps;
  progress.loss = job.loss;
  progress.samples_per_s = job.samples_per_s;
  progress.step_s = job.step_s;
  progress.restarts = live.restarts;
  return progress;
}

std::string head_of(const RunSummary& run, const LiveState& live, const Moment& moment,
                    const TopOptions& options) {
  const int64_t until = run.ended() ? run.ended_unix_ns : moment.now_unix_ns;
  const std::string first =
      fmt::format("{}  {}  generation {}  ranks {}  nodes {}  {}", printable(run.job_name),
                  run.state, run.generation, run.world_size, live.nodes,
                  format_duration(ns_to_seconds(until - run.started_unix_ns)));
  std::string out = styled(prefix_of_width(first, options.width), sgr::kBold, options.colour);
  out += "\n" + format_progress(progress_of(run, live), options.width) + "\n";
  const double silent_s = ns_to_seconds(moment.now_unix_ns - live.unix_ns);
  if (!moment.over && live.unix_ns > 0 && silent_s > kStaleAfterSeconds) {
    out += fmt::format("no word from the coordinator for {}\n", format_duration(silent_s));
  }
  return out;
}

}  // namespace

std::string render_top(const RunSummary& run, const LiveState& live, int64_t now_unix_ns,
                       const TopOptions& options) {
  const Moment moment{now_unix_ns, run.ended()};
  std::string out = head_of(run, live, moment, options);
  if (live.ranks.empty()) return out;
  std::vector<RankTelemetry> ranks = live.ranks;
  const bool all_shown = ranks.size() <= options.max_ranks;
  if (!all_shown) hold_up_most_first(ranks);
  const size_t shown = std::min(ranks.size(), options.max_ranks);
  const std::vector<RankTelemetry> first(ranks.begin(),
                                         ranks.begin() + static_cast<ptrdiff_t>(shown));
  out += "\n" + fitting_table(first, moment, options.width);
  if (!all_shown) out += summary_of_rest(ranks, shown);
  return out;
}

}  // namespace shanty
