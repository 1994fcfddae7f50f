#include "doctor/run/slow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "doctor/run/node_changes.h"
#include "doctor/run/robust.h"
#include "doctor/run/step_table.h"

namespace shanty {
namespace {

constexpr double kLoaderShare = 0.15;
constexpr double kCheckpointShare = 0.10;
constexpr double kCollectiveShare = 0.25;
constexpr double kBeyondChance = 3.5;    // spreads
constexpr double kStragglerCost = 0.05;  // of the steps' time, lost by the others
constexpr double kStragglerBlame = 0.7;  // of that, by one rank
constexpr double kSteadyShare = 0.7;     // of the steps in which it is the last
constexpr double kGoodEfficiency = 0.8;
constexpr int64_t kNearEventNs = 60'000'000'000;

double percent(double share) { return 100 * share; }

// The shortest time in the synchronising part of a step is that of the last to come: it waits for
// nobody. What the others have above it they wait.
double least_sync(const std::vector<StepTimes>& row) {
  double least = std::numeric_limits<double>::max();
  for (const StepTimes& t : row) least = std::min(least, t.sync);
  return least;
}

size_t last_to_come(const std::vector<StepTimes>& row) {
  const auto at =
      std::min_element(row.begin(), row.end(),
                       [](const StepTimes& a, const StepTimes& b) { return a.sync < b.sync; });
  return static_cast<size_t>(at - row.begin());
}

// What the last one costs the others in this step.
double cost_of(const std::vector<StepTimes>& row) {
  const size_t last = last_to_come(row);
  std::vector<double> waits;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i != last) waits.push_back(row[i].sync - row[last].sync);
  }
  return waits.empty() ? 0 : median_of(std::move(waits));
}

Finding base_finding(const char* code, Severity severity, double confidence, const RunFacts& run) {
  Finding out;
  out.code = code;
  out.severity = severity;
  out.failure_class = "slow";
  out.confidence = confidence;
  out.subject.files.push_back(run.path);
  return out;
}

const GenerationSteps* longest(const RunFacts& run) {
  const GenerationSteps* best = nullptr;
  size_t most = 0;
  for (const GenerationSteps& generation : run.steps) {
    const size_t records = generation.ranks.front().records.size();
    if (records > most) {
      most = records;
      best = &generation;
    }
  }
  return best;
}

std::string shares_text(const Shares& s) {
  return fmt::format(
      "data {:.0f} %, compute {:.0f} %, waiting for other ranks {:.0f} %, collectives "
      "{:.0f} %, checkpoints {:.0f} %, other {:.0f} %",
      percent(s.data), percent(s.compute), percent(s.waiting), percent(s.collective),
      percent(s.checkpoint), percent(s.other));
}

Shares median_shares(const std::vector<RankShares>& ranks) {
  const auto of = [&](double Shares::* part) {
    std::vector<double> values;
    for (const RankShares& rank : ranks) values.push_back(rank.shares.*part);
    return median_of(std::move(values));
  };
  return {of(&Shares::data),       of(&Shares::compute),    of(&Shares::waiting),
          of(&Shares::collective), of(&Shares::checkpoint), of(&Shares::other)};
}

class SlowWriter {
 public:
  SlowWriter(const RunFacts& run, const GenerationSteps& steps)
      : run_(run), steps_(steps), table_(step_table(steps)), ranks_(shares_of(steps)) {}

  std::vector<Finding> write() {
    if (table_.rows.size() < kMinTimedSteps) {
      out_.push_back(too_few());
      return std::move(out_);
    }
    find_straggler();
    find_loader();
    find_parts();
    find_regression();
    out_.push_back(summary());
    return std::move(out_);
  }

 private:
  Finding too_few() const {
    Finding out = base_finding("PERF108", Severity::kNote, 1, run_);
    out.message = fmt::format(
        "cannot tell where the time goes: {} steps were timed on all ranks after "
        "the first {}, at least {} are needed",
        table_.rows.size(), kWarmUpSteps, kMinTimedSteps);
    return out;
  }

  double mean_step() const {
    double sum = 0;
    for (const auto& row : table_.rows) sum += row.front().step;
    return sum / static_cast<double>(table_.rows.size());
  }

  void add_shares(Finding& out) const {
    constexpr size_t kShown = 8;
    for (size_t i = 0; i < std::min(ranks_.size(), kShown); ++i) {
      out.evidence.push_back(
          {steps_.ranks[i].file, 0,
           fmt::format("rank {}: {} timed steps of {}: {}", ranks_[i].rank, ranks_[i].steps,
                       format_duration(ranks_[i].step_s), shares_text(ranks_[i].shares))});
    }
  }

  Finding summary() const {
    const Shares shares = median_shares(ranks_);
    Finding out = base_finding("PERF108", Severity::kNote, 0.9, run_);
    out.message = fmt::format("a step takes {} on {} ranks: {}", format_duration(mean_step()),
                              ranks_.size(), shares_text(shares));
    out.ruled_out.push_back(
        "not split: communication that overlaps with backward counts as compute");
    add_shares(out);
    return out;
  }

  void find_loader() {
    const double share = median_shares(ranks_).data;
    if (share < kLoaderShare) return;
    Finding out = base_finding("PERF107", Severity::kWarning, 0.9, run_);
    out.message = fmt::format(
        "the ranks wait for data {:.0f} % of the time: with a loader that keeps "
        "up, steps would take {} instead of {}",
        percent(share), format_duration(mean_step() * (1 - share)), format_duration(mean_step()));
    out.ruled_out = {"one slow rank: the wait for data is alike on most ranks",
                     "communication: it is outside of backward and collectives"};
    out.prevent = {"LOAD001"};
    add_shares(out);
    out_.push_back(std::move(out));
  }

  void find_parts() {
    const Shares shares = median_shares(ranks_);
    if (shares.checkpoint >= kCheckpointShare) {
      Finding out = base_finding("PERF105", Severity::kWarning, 0.9, run_);
      out.message =
          fmt::format("saving takes {:.0f} % of the steps' time", percent(shares.checkpoint));
      add_shares(out);
      out_.push_back(std::move(out));
    }
    if (shares.collective >= kCollectiveShare) {
      Finding out = base_finding("PERF103", Severity::kWarning, 0.8, run_);
      out.message = fmt::format(
          "collectives take {:.0f} % of the steps' time, not counting the wait for "
          "a slow rank",
          percent(shares.collective));
      out.ruled_out = {"a straggler: what the last rank to come spends in them is counted alone"};
      add_shares(out);
      out_.push_back(std::move(out));
    }
  }

  // Costs of the steps in which this rank was the last, and how many of them there are.
  struct Blame {
    double cost_s = 0;
    size_t steps = 0;
  };

  void find_straggler() {
    const size_t n = table_.ranks.size();
    if (n < 2) return;
    std::vector<Blame> blames(n);
    double total_s = 0;
    double squares = 0;
    double time_s = 0;
    for (const auto& row : table_.rows) {
      const size_t last = last_to_come(row);
      const double cost = cost_of(row);
      blames[last].cost_s += cost;
      ++blames[last].steps;
      total_s += cost;
      squares += cost * cost;
      time_s += row[last].step;
    }
    const auto worst = static_cast<size_t>(
        std::max_element(blames.begin(), blames.end(),
                         [](const Blame& a, const Blame& b) { return a.cost_s < b.cost_s; }) -
        blames.begin());
    const double share = blames[worst].cost_s / time_s;
    if (share < kStragglerCost || blames[worst].cost_s < kStragglerBlame * total_s) return;
    // What this rank would cost if each step's last one were drawn by lot, and how that spreads.
    const double lot = 1 / static_cast<double>(n);
    const double spread = std::sqrt(squares * lot * (1 - lot));
    if (blames[worst].cost_s - total_s * lot < kBeyondChance * spread) return;
    out_.push_back(straggler(worst, share, blames[worst]));
  }

  Finding straggler(size_t worst, double share, const Blame& blame) const {
    const double last = static_cast<double>(blame.steps) / static_cast<double>(table_.rows.size());
    const bool steady = last >= kSteadyShare;
    Finding out = base_finding("PERF102", Severity::kWarning, steady ? 0.9 : 0.75, run_);
    const int rank = table_.ranks[worst];
    out.subject.ranks = {rank};
    const std::string node = node_of(rank);
    if (!node.empty()) out.subject.nodes = {node};
    const auto [part, excess_s] = slow_part(worst);
    const auto shift = find_shift(costs_by(worst));
    out.message = fmt::format(
        "rank {} makes the others wait: at least {:.0f} % of their time, {} (the "
        "last in {:.0f} % of the steps); its {} takes {} longer than theirs{}",
        rank, percent(share), steady ? "steadily" : "now and then", percent(last), part,
        format_duration(excess_s), since(shift));
    out.ruled_out = {"the network: that rank itself waits for nobody in these steps"};
    out.fix = {
        std::string("look at that rank's ") + part +
            (std::string_view(part) == "data" ? ": its storage, its loader's workers"
                                              : ": clocks and temperature of its GPU and CPU, "
                                                "neighbours on the node, NUMA and CPU binding"),
        "exchange that node and see whether the delay follows the node or the rank"};
    add_shares(out);
    add_node_changes(worst, shift, out);
    if (shift) add_events(table_.end_unix_ns[shift->index], out);
    return out;
  }

  // What its node was busy with since it is slow and neither before nor on other nodes; without a
  // "before", what is unlike other nodes.
  void add_node_changes(size_t worst, const std::optional<Shift>& shift, Finding& out) const {
    const int node = node_rank_of(table_.ranks[worst]);
    const auto own = run_.node_samples.find(node);
    if (own == run_.node_samples.end()) return;
    const int64_t end_ns = table_.end_unix_ns.back();
    const int64_t begin_ns = shift ? table_.end_unix_ns[shift->index] : table_.end_unix_ns.front();
    const SampleMeans since = means_of(own->second, begin_ns, end_ns);
    const SampleMeans before =
        means_of(own->second, shift ? table_.end_unix_ns.front() : end_ns, begin_ns);
    SampleMeans others;
    for (const auto& [other, samples] : run_.node_samples) {
      if (other != node) others.add(samples, begin_ns, end_ns);
    }
    for (const std::string& change : node_changes(since, before, others)) {
      out.message += "; on its node " + change;
      out.evidence.push_back(
          {fmt::format("{}/nodes/node-{:05}.jsonl", run_.path, node), since.first_line, change});
    }
  }

  int node_rank_of(int rank) const {
    for (const RankTelemetry& live : run_.live.ranks) {
      if (live.rank == rank) return live.node_rank;
    }
    return run_.info.slots > 0 ? rank / run_.info.slots : 0;
  }

  std::string node_of(int rank) const {
    for (const RankTelemetry& live : run_.live.ranks) {
      if (live.rank != rank) continue;
      for (const NodeVersions& node : run_.versions) {
        const auto host = node.values.find("host");
        if (node.node_rank == live.node_rank && host != node.values.end()) return host->second;
      }
    }
    return "";
  }

  // The part of the step in which it differs most from the others.
  std::pair<const char*, double> slow_part(size_t worst) const {
    struct Part {
      const char* name;
      double StepTimes::* value;
    };
    constexpr std::array<Part, 5> kParts = {{{"data", &StepTimes::data},
                                             {"forward", &StepTimes::forward},
                                             {"optimizer", &StepTimes::optimizer},
                                             {"checkpoint", &StepTimes::checkpoint},
                                             {"own work between the phases", &StepTimes::other}}};
    const char* name = "backward";
    double most = 0;
    for (const Part& part : kParts) {
      std::vector<double> excess;
      double sum = 0;
      for (const auto& row : table_.rows) {
        std::vector<double> others;
        for (size_t i = 0; i < row.size(); ++i) {
          if (i != worst) others.push_back(row[i].*part.value);
        }
        sum += row[worst].*part.value - median_of(std::move(others));
      }
      const double mean = sum / static_cast<double>(table_.rows.size());
      if (mean > most) {
        most = mean;
        name = part.name;
      }
    }
    return {name, most};
  }

  std::vector<double> costs_by(size_t rank) const {
    std::vector<double> costs;
    for (const auto& row : table_.rows) {
      costs.push_back(last_to_come(row) == rank ? cost_of(row) : 0);
    }
    return costs;
  }

  std::string since(const std::optional<Shift>& shift) const {
    if (!shift || shift->after <= shift->before) return ", from the first steps on";
    return fmt::format(", since about step {}", table_.steps[shift->index]);
  }

  // What else the run tells of that minute.
  void add_events(int64_t unix_ns, Finding& out) const {
    constexpr size_t kShown = 5;
    size_t shown = 0;
    for (const Event& event : run_.events) {
      if (std::abs(event.unix_ns - unix_ns) > kNearEventNs || shown == kShown) continue;
      if (event.kind == event_kind::kFirstStep || event.kind == event_kind::kEnded) continue;
      out.evidence.push_back({run_.path + "/events/" + event.source + ".jsonl", 0, event.text});
      ++shown;
    }
  }

  void find_regression() {
    std::vector<double> steps;
    for (const auto& row : table_.rows) {
      std::vector<double> values;
      for (const StepTimes& t : row) values.push_back(t.step - t.checkpoint);
      steps.push_back(median_of(std::move(values)));
    }
    const auto shift = find_shift(steps);
    if (!shift || shift->after <= shift->before) return;
    Finding out = base_finding("PERF104", Severity::kWarning, 0.85, run_);
    const uint64_t uncertain =
        shift->index + shift->uncertain < table_.steps.size()
            ? table_.steps[shift->index + shift->uncertain] - table_.steps[shift->index]
            : 0;
    out.message = fmt::format(
        "steps take {} since about step {} (+- {}), {} before: {:.0f} % longer; "
        "what grew is {}",
        format_duration(shift->after), table_.steps[shift->index], uncertain,
        format_duration(shift->before), percent(shift->after / shift->before - 1),
        grown_part(shift->index));
    add_events(table_.end_unix_ns[shift->index], out);
    out.evidence.push_back({steps_.ranks.front().file, shift->index + 1,
                            fmt::format("step {} ended at {}", table_.steps[shift->index],
                                        format_utc(table_.end_unix_ns[shift->index]))});
    out_.push_back(std::move(out));
  }

  std::string grown_part(size_t index) const {
    struct Part {
      const char* name;
      double StepTimes::* value;
    };
    constexpr std::array<Part, 5> kParts = {{{"data", &StepTimes::data},
                                             {"forward", &StepTimes::forward},
                                             {"backward and collectives", &StepTimes::sync},
                                             {"optimizer", &StepTimes::optimizer},
                                             {"the rest of the step", &StepTimes::other}}};
    const char* name = "not clear";
    double most = 0;
    for (const Part& part : kParts) {
      std::vector<double> before;
      std::vector<double> after;
      for (size_t i = 0; i < table_.rows.size(); ++i) {
        for (const StepTimes& t : table_.rows[i])
          (i < index ? before : after).push_back(t.*part.value);
      }
      const double grown = median_of(std::move(after)) - median_of(std::move(before));
      if (grown > most) {
        most = grown;
        name = part.name;
      }
    }
    return name;
  }

  const RunFacts& run_;
  const GenerationSteps& steps_;
  StepTable table_;
  std::vector<RankShares> ranks_;
  std::vector<Finding> out_;
};

struct Throughput {
  double step_s = 0;
  double samples = 0;  // of one rank's step; NaN = unknown
  size_t ranks = 0;
};

Throughput throughput_of(const RunFacts& run) {
  Throughput out;
  const GenerationSteps* steps = longest(run);
  if (steps == nullptr) return out;
  std::vector<double> times;
  std::vector<double> samples;
  for (const RankSeries& series : steps->ranks) {
    for (size_t i = kWarmUpSteps; i < series.records.size(); ++i) {
      times.push_back(series.records[i].step_us * 1e-6);
      const double count = static_cast<double>(series.records[i].samples);
      if (std::isfinite(count)) samples.push_back(count);
    }
  }
  if (times.size() < kMinTimedSteps) return out;
  return {median_of(std::move(times)), median_of(std::move(samples)), steps->ranks.size()};
}

}  // namespace

std::vector<RankShares> shares_of(const GenerationSteps& steps) {
  const StepTable table = step_table(steps);
  std::vector<RankShares> out;
  for (size_t i = 0; i < table.ranks.size() && !table.rows.empty(); ++i) {
    StepTimes sum;
    double waiting = 0;
    double collective = 0;
    for (const auto& row : table.rows) {
      const StepTimes& t = row[i];
      const double wait = t.sync - least_sync(row);
      const double in_collective = std::min(wait, t.collective);
      sum.step += t.step;
      sum.data += t.data;
      sum.forward += t.forward + t.optimizer + t.backward - (wait - in_collective);
      sum.checkpoint += t.checkpoint;
      waiting += wait;
      collective += t.collective - in_collective;
    }
    Shares s{.data = sum.data / sum.step,
             .compute = sum.forward / sum.step,
             .waiting = waiting / sum.step,
             .collective = collective / sum.step,
             .checkpoint = sum.checkpoint / sum.step};
    s.other = std::max(0.0, 1 - s.data - s.compute - s.waiting - s.collective - s.checkpoint);
    const auto count = static_cast<double>(table.rows.size());
    out.push_back({table.ranks[i], s, sum.step / count, table.rows.size()});
  }
  return out;
}

std::vector<Finding> diagnose_slow(const RunFacts& run) {
  const GenerationSteps* steps = longest(run);
  if (steps == nullptr) return {};
  return SlowWriter(run, *steps).write();
}

std::vector<Finding> compare_scaling(const RunFacts& small, const RunFacts& large) {
  const Throughput one = throughput_of(small);
  const Throughput many = throughput_of(large);
  if (one.step_s == 0 || many.step_s == 0 || one.ranks >= many.ranks) return {};
  const bool samples_known = std::isfinite(one.samples) && std::isfinite(many.samples);
  const double per_rank = samples_known ? many.samples / one.samples : 1;
  const double efficiency = per_rank * one.step_s / many.step_s;
  Finding out =
      base_finding("PERF106", efficiency < kGoodEfficiency ? Severity::kWarning : Severity::kNote,
                   samples_known ? 0.9 : 0.7, large);
  out.message = fmt::format(
      "{} ranks do {:.2f} times the work of {} ranks: {:.0f} % scaling efficiency "
      "(a step {} against {})",
      many.ranks, efficiency * static_cast<double>(many.ranks) / static_cast<double>(one.ranks),
      one.ranks, percent(efficiency), format_duration(many.step_s), format_duration(one.step_s));
  if (!samples_known) out.ruled_out = {"assumed: the same batch on each rank in both runs"};
  out.subject.files = {small.path, large.path};
  return {out};
}

}  // namespace shanty
