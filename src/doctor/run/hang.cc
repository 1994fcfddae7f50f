#include "doctor/run/hang.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/units.h"
#include "doctor/flight/words.h"

namespace shanty {
namespace {

constexpr double kMovingFactor = 2;
constexpr double kLeastMovingS = 2;  // what is seen is up to a second old
constexpr double kBusyCores = 0.7;
constexpr double kIdleCores = 0.3;
constexpr size_t kMaxEvidence = 12;

// Where a rank stands that waits for others: these hold the collectives of DDP and FSDP.
bool may_wait(const RankNow& rank) {
  return rank.phase == "collective" || rank.phase == "backward" || rank.phase == "forward";
}

bool is_stopped(const RankNow& rank) {
  return rank.process_state == 'T' || rank.process_state == 't';
}

int64_t last_sign(const RankNow& rank) {
  return std::max(rank.last_step_unix_ns, rank.phase_since_unix_ns);
}

using Ranks = std::vector<const RankNow*>;

Ranks filter(const HangView& view, const std::function<bool(const RankNow&)>& keep) {
  Ranks out;
  for (const RankNow& rank : view.ranks) {
    if (keep(rank)) out.push_back(&rank);
  }
  return out;
}

std::string names(const Ranks& ranks) {
  std::vector<int> numbers;
  for (const RankNow* rank : ranks) numbers.push_back(rank->rank);
  return flight::ranks_text(numbers);
}

// "14 ranks in backward, 1 in data"
std::string phases_text(const HangView& view) {
  std::map<std::string, int> counts;
  for (const RankNow& rank : view.ranks) ++counts[rank.phase.empty() ? "unknown" : rank.phase];
  std::string text;
  for (const auto& [phase, count] : counts) {
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", count, phase);
  }
  return text;
}

class Judge {
 public:
  explicit Judge(const HangView& view) : view_(view) {}

  HangVerdict judge() {
    const Ranks stopped = filter(view_, is_stopped);
    if (!stopped.empty()) out_.findings.push_back(stopped_finding(stopped));
    measure();
    if (out_.motion != Motion::kHung || !stopped.empty()) return std::move(out_);
    out_.findings.push_back(who_is_it());
    return std::move(out_);
  }

 private:
  void measure() {
    int64_t newest = 0;
    bool any_step = false;
    int64_t slowest = view_.now_unix_ns;
    for (const RankNow& rank : view_.ranks) {
      any_step |= rank.has_step;
      newest = std::max(newest, rank.last_step_unix_ns);
      if (rank.has_step) slowest = std::min(slowest, rank.last_step_unix_ns);
    }
    if (!any_step) {
      out_.motion = Motion::kNotStarted;
      return;
    }
    // The rank that completed a step longest ago tells: one alone may stand while others go on.
    out_.last_step_unix_ns = slowest;
    out_.still_s = ns_to_seconds(view_.now_unix_ns - slowest);
    out_.limit_s = 2 * view_.usual_step_s + kHangGraceS;
    const double moving = std::max(kMovingFactor * view_.usual_step_s, kLeastMovingS);
    out_.motion = out_.still_s <= moving        ? Motion::kMoving
                  : out_.still_s < out_.limit_s ? Motion::kTooEarly
                                                : Motion::kHung;
  }

  Finding start(const char* code, const char* failure_class, double confidence,
                const Ranks& culprits) const {
    Finding out;
    out.code = code;
    out.severity = Severity::kError;
    out.failure_class = failure_class;
    out.confidence = confidence;
    for (const RankNow* rank : culprits) {
      out.subject.ranks.push_back(rank->rank);
      const std::string& node = rank->node;
      auto& nodes = out.subject.nodes;
      if (!node.empty() && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
        nodes.push_back(node);
      }
    }
    for (const RankNow* rank : culprits) add_evidence(*rank, out);
    for (const RankNow& rank : view_.ranks) {
      if (std::find(culprits.begin(), culprits.end(), &rank) == culprits.end()) {
        add_evidence(rank, out);
      }
    }
    return out;
  }

  void add_evidence(const RankNow& rank, Finding& out) const {
    if (out.evidence.size() == kMaxEvidence) return;
    std::string text = fmt::format("rank {}: in {}", rank.rank, rank.phase);
    if (rank.phase_since_unix_ns > 0) {
      text += fmt::format(" for {}", age(rank.phase_since_unix_ns));
    }
    if (rank.has_step)
      text += fmt::format(", step {} completed {} ago", rank.step, age(rank.last_step_unix_ns));
    text += fmt::format(", {:.1f} CPUs", rank.cpu_cores);
    if (rank.process_state != 0) text += fmt::format(", process state {}", rank.process_state);
    if (!rank.waits_in.empty()) text += fmt::format(" ({})", rank.waits_in);
    out.evidence.push_back({view_.source, 0, text});
  }

  std::string age(int64_t unix_ns) const {
    return format_duration(std::max(0.0, ns_to_seconds(view_.now_unix_ns - unix_ns)));
  }

  std::string pid_text(const RankNow& rank) const {
    return rank.pid > 0 ? fmt::format("{}", rank.pid) : std::string("PID");
  }

  std::vector<std::string> look_inside(const Ranks& ranks) const {
    const RankNow& rank = *ranks.front();
    const std::string where = rank.node.empty() ? "" : fmt::format("on {}: ", rank.node);
    return {fmt::format("{}py-spy dump --native --pid {} (what rank {} does)", where,
                        pid_text(rank), rank.rank)};
  }

  Finding stopped_finding(const Ranks& stopped) const {
    Finding out = start("HANG104", "process_frozen", 0.98, stopped);
    const Ranks others = filter(view_, [](const RankNow& rank) { return !is_stopped(rank); });
    out.message = fmt::format("the process of {} is stopped (state {})", names(stopped),
                              stopped.front()->process_state);
    if (!others.empty()) {
      out.message +=
          fmt::format("; {} {} for it", names(others), others.size() == 1 ? "waits" : "wait");
    }
    out.ruled_out = {"a busy rank: a stopped process does nothing at all",
                     "network: the others are held up by that process alone"};
    out.fix = {fmt::format("kill -CONT {} (it goes on where it was)", pid_text(*stopped.front())),
               "find who stopped it: a debugger, job control (Ctrl-Z), a frozen cgroup"};
    return out;
  }

  Finding who_is_it() const {
    const Ranks waiting = filter(view_, may_wait);
    const Ranks busy = filter(view_, [](const RankNow& rank) { return !may_wait(rank); });
    const Ranks behind = ranks_behind();
    if (!busy.empty() && !waiting.empty()) return busy_finding(busy, waiting);
    if (waiting.empty()) return same_phase_finding(busy);
    if (!behind.empty()) return behind_finding(behind);
    const Ranks earlier = fewer_in_forward(waiting);
    if (!earlier.empty()) return earlier_finding(earlier);
    const Ranks spinning = spinning_ranks(waiting);
    if (!spinning.empty()) return spinning_finding(spinning);
    return all_waiting_finding(waiting);
  }

  std::string since_text() const {
    return fmt::format("no step for {} (usually {} a step)", format_duration(out_.still_s),
                       format_duration(view_.usual_step_s));
  }

  // Some do something of their own while others stand where collectives are.
  Finding busy_finding(const Ranks& busy, const Ranks& waiting) const {
    const RankNow& first = *busy.front();
    Finding out = start("HANG102", "rank_busy", 0.9, busy);
    out.message = fmt::format(
        "{} never arrived: {} in {} for {} while {} {} in {}; {}", names(busy),
        busy.size() == 1 ? "it is" : "they are", first.phase, age(last_sign(first)), names(waiting),
        waiting.size() == 1 ? "waits" : "wait", waiting.front()->phase, since_text());
    out.ruled_out = {fmt::format("network: {} did not come to the collective", names(busy)),
                     "a hang of all: the phases differ (" + phases_text(view_) + ")"};
    out.fix = look_inside(busy);
    out.fix.push_back(what_to_do_in(first.phase));
    return out;
  }

  static std::string what_to_do_in(const std::string& phase) {
    if (phase == "data") {
      return "look at that rank's data: its storage, a loader worker that died or is locked, an "
             "item "
             "that takes for ever";
    }
    if (phase == "checkpoint")
      return "look at the storage of checkpoints: full, slow or not reachable";
    if (phase == "done" || phase == "eval" || phase == "other" || phase == "start") {
      return "give every rank the same number of steps: drop_last, a sampler that pads, or DDP's "
             "join; "
             "what one rank does alone (evaluation, saving) must not need the others";
    }
    return "look at what that rank does outside of collectives";
  }

  Finding same_phase_finding(const Ranks& ranks) const {
    Finding out = start("HANG111", "rank_busy", 0.7, ranks);
    out.message = fmt::format("no rank waits for another and none moves: {}; {}",
                              phases_text(view_), since_text());
    out.ruled_out = {"a missing rank: none stands at a collective"};
    out.fix = look_inside(ranks);
    out.fix.push_back(what_to_do_in(ranks.front()->phase));
    return out;
  }

  Ranks ranks_behind() const {
    uint64_t least = ~uint64_t{0};
    uint64_t most = 0;
    for (const RankNow& rank : view_.ranks) {
      if (!rank.has_step) continue;
      least = std::min(least, rank.step);
      most = std::max(most, rank.step);
    }
    if (most <= least + 1) return {};  // one apart may be how far the records were read
    return filter(view_, [&](const RankNow& rank) { return rank.has_step && rank.step == least; });
  }

  Finding behind_finding(const Ranks& behind) const {
    Finding out = start("HANG102", "rank_busy", 0.7, behind);
    out.message =
        fmt::format("{} {} behind at step {}: {}", names(behind), behind.size() == 1 ? "is" : "are",
                    behind.front()->step, since_text());
    out.ruled_out = {
        "cannot tell: busy within that phase, or stuck in a collective of its own group; "
        "its stack tells"};
    out.fix = look_inside(behind);
    return out;
  }

  // The others are a phase further.
  Ranks fewer_in_forward(const Ranks& waiting) const {
    Ranks forward;
    for (const RankNow* rank : waiting) {
      if (rank->phase == "forward") forward.push_back(rank);
    }
    return forward.empty() || 2 * forward.size() > waiting.size() ||
                   forward.size() == waiting.size()
               ? Ranks()
               : forward;
  }

  Finding earlier_finding(const Ranks& earlier) const {
    Finding out = start("HANG102", "rank_busy", 0.75, earlier);
    out.message = fmt::format(
        "{} never arrived: still in forward for {} while the others are further "
        "({}); {}",
        names(earlier), age(last_sign(*earlier.front())), phases_text(view_), since_text());
    out.ruled_out = {
        "cannot tell: computing, or inside a collective that its forward makes; its stack "
        "tells"};
    out.fix = look_inside(earlier);
    return out;
  }

  // All stand at the same place; of those that wait most sleep, so one that computes is another.
  Ranks spinning_ranks(const Ranks& waiting) const {
    Ranks spinning;
    size_t idle = 0;
    for (const RankNow* rank : waiting) {
      if (rank->cpu_cores >= kBusyCores) spinning.push_back(rank);
      idle += rank->cpu_cores <= kIdleCores ? 1 : 0;
    }
    const bool clear = spinning.size() + idle == waiting.size() && spinning.size() <= idle;
    return clear ? spinning : Ranks();
  }

  Finding spinning_finding(const Ranks& spinning) const {
    Finding out = start("HANG102", "rank_busy", 0.65, spinning);
    out.message = fmt::format(
        "{} likely never arrived: all are in {}, but {} computes ({:.1f} CPUs) "
        "while the others sleep; {}",
        names(spinning), spinning.front()->phase, spinning.size() == 1 ? "it" : "each of these",
        spinning.front()->cpu_cores, since_text());
    out.ruled_out = {"cannot tell for sure: the phases are equal; a stack of that rank decides"};
    out.fix = look_inside(spinning);
    return out;
  }

  Finding all_waiting_finding(const Ranks& waiting) const {
    Finding out = start("HANG199", "fabric_fault", 0.5, waiting);
    out.message =
        fmt::format("all ranks stand where they exchange gradients ({}), and none moves; {}",
                    phases_text(view_), since_text());
    out.ruled_out = {
        "a rank that is elsewhere: the phases are equal",
        "cannot tell: the network, a GPU, other shapes on one rank, or a rank that computes "
        "inside that phase; a Flight Recorder dump of each rank decides, else stacks"};
    out.fix = {
        "dump the Flight Recorder of every rank (torch._C._distributed_c10d._dump_fr_trace, or "
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 with NCCL) and give the files to shanty doctor"};
    const auto inside = look_inside(waiting);
    out.fix.insert(out.fix.end(), inside.begin(), inside.end());
    return out;
  }

  const HangView& view_;
  HangVerdict out_;
};

}  // namespace

HangVerdict judge_hang(const HangView& view) { return Judge(view).judge(); }

}  // namespace shanty
