#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/units.h"
#include "doctor/flight/flight.h"
#include "doctor/flight/words.h"

namespace shanty::flight {
namespace {

constexpr size_t kMaxEvidence = 12;
constexpr size_t kWitnesses = 3;  // of those that wait
constexpr double kLateS = 30;
constexpr double kMovingS = 2;

const char* const kPySpy =
    "on the node of that rank, while it still hangs: py-spy dump --native "
    "--pid PID (what it does instead of the collective)";

std::vector<int> ranks_of(const DumpSet& set, const std::vector<uint32_t>& indices) {
  std::vector<int> ranks;
  for (const uint32_t index : indices) ranks.push_back(set.ranks[index].rank);
  return ranks;
}

std::vector<int> ranks_of(const DumpSet& set, const std::vector<Member>& members) {
  std::vector<int> ranks;
  for (const Member& member : members) ranks.push_back(set.ranks[member.rank_index].rank);
  return ranks;
}

class Writer {
 public:
  Writer(const DumpSet& set, const Analysis& analysis) : set_(set), analysis_(analysis) {}

  Finding write(const Cause& cause) const {
    switch (cause.kind) {
      case Cause::Kind::kNeverArrived:
        return never_arrived(cause);
      case Cause::Kind::kDeadlock:
        return deadlock(cause);
      case Cause::Kind::kMismatch:
        return mismatch(cause);
      case Cause::Kind::kNetwork:
        return network(cause);
      case Cause::Kind::kNoDump:
        return no_dump(cause);
      case Cause::Kind::kP2pMismatch:
        return p2p_mismatch(cause);
    }
    return {};
  }

 private:
  const StuckGroup& stuck(uint32_t index) const { return analysis_.stuck[index]; }
  std::string title(const StuckGroup& s) const { return set_.tables.group(s.group).title(); }

  // The collective that a group stands at, in the words of one that came.
  std::string collective(const StuckGroup& s, uint32_t seq) const {
    for (const Member& member : s.arrived) {
      const RankTrace& trace = set_.ranks[member.rank_index];
      const uint32_t at = find_collective(trace, s.group, seq);
      if (at != kNoId) return call_text(set_, trace.entries[at]);
    }
    return fmt::format("collective #{}", seq);
  }

  void add_witnesses(const StuckGroup& s, uint32_t seq, Finding& out) const {
    size_t added = 0;
    for (const Member& member : s.arrived) {
      if (added == kWitnesses || out.evidence.size() == kMaxEvidence) return;
      const uint32_t at = find_collective(set_.ranks[member.rank_index], s.group, seq);
      if (at == kNoId) continue;
      out.evidence.push_back(entry_evidence(set_, member.rank_index, at));
      ++added;
    }
  }

  void add_last(const std::vector<uint32_t>& indices, Finding& out) const {
    for (const uint32_t index : indices) {
      if (out.evidence.size() == kMaxEvidence) return;
      out.evidence.push_back(last_evidence(set_, index));
    }
  }

  // Less is sure where dumps are missing, or where they are of a moment of a job that moves.
  double confidence(double best) const {
    if (!analysis_.missing.empty()) best -= 0.15;
    if (moving()) best = std::min(best, 0.5);
    return best;
  }

  // All dumps were written within a moment of the newest entry.
  bool moving() const {
    int64_t newest_file = 0;
    for (const RankTrace& trace : set_.ranks) {
      newest_file = std::max(newest_file, trace.file_unix_ns);
    }
    if (newest_file < analysis_.newest_unix_ns) return false;
    return ns_to_seconds(newest_file - analysis_.newest_unix_ns) < kMovingS;
  }

  Finding start(const char* code, const char* failure_class, double best) const {
    Finding out;
    out.code = code;
    out.severity = Severity::kError;
    out.failure_class = failure_class;
    out.confidence = confidence(best);
    if (moving()) {
      out.ruled_out.push_back(fmt::format(
          "not ruled out: the dumps were written within {} s of the last collective, so they may "
          "show a moment of a job that moves; dump again and compare",
          kMovingS));
    }
    return out;
  }

  Finding never_arrived(const Cause& cause) const {
    const std::vector<int> ranks = ranks_of(set_, cause.ranks);
    if (cause.groups.empty()) return peer_never_came(cause, ranks);
    const StuckGroup& s = stuck(cause.groups.front());
    Finding out = start("HANG102", "rank_busy", s.after_timeout ? 0.75 : 0.95);
    out.subject.ranks = ranks;
    const bool one = ranks.size() == 1;
    out.message = fmt::format("{} never arrived at {} of {}: {} of its {} ranks wait there{}; {}",
                              ranks_text(ranks), collective(s, s.seq), title(s), s.arrived.size(),
                              set_.tables.group(s.group).ranks.size(), others(cause, s),
                              where_it_is(set_, cause.ranks.front()));
    if (!one) out.message += fmt::format(" (rank {})", set_.ranks[cause.ranks.front()].rank);
    add_last(cause.ranks, out);
    for (const uint32_t g : cause.groups) add_witnesses(stuck(g), stuck(g).seq, out);
    out.ruled_out.push_back(fmt::format("network: {} did not even enqueue the operation",
                                        one ? "that rank" : "those ranks"));
    if (s.mismatch == Shape::kNone && s.arrived.size() > 1) {
      out.ruled_out.push_back("another operation or shape: all that arrived have the same");
    }
    if (s.after_timeout) {
      out.ruled_out.push_back(
          "completion: the recorder marks timed-out operations as retired too; nobody can complete "
          "this one without every rank");
    }
    out.ruled_out.push_back(
        "cannot tell: a rank that is busy (data, save, evaluation), that left its loop early, or "
        "that is stuck inside the call before it was recorded; its stack tells");
    out.fix = {kPySpy,
               "look at what the program does after that place: a branch on the rank, fewer "
               "batches than the others, a save or an evaluation on one rank only"};
    return out;
  }

  std::string others(const Cause& cause, const StuckGroup& s) const {
    if (cause.victims <= s.arrived.size()) return "";
    return fmt::format(", and {} more wait because of that", cause.victims - s.arrived.size());
  }

  Finding peer_never_came(const Cause& cause, const std::vector<int>& ranks) const {
    Finding out = start("HANG102", "rank_busy", 0.85);
    out.subject.ranks = ranks;
    out.message = fmt::format(
        "{} never posted the other end of a send or receive: {} waits for it", ranks_text(ranks),
        fmt::format("{} rank{}", cause.victims, cause.victims == 1 ? "" : "s"));
    add_last(cause.ranks, out);
    for (const uint32_t p : cause.p2p) {
      if (out.evidence.size() == kMaxEvidence) break;
      out.evidence.push_back(
          entry_evidence(set_, analysis_.p2p[p].rank_index, analysis_.p2p[p].entry));
    }
    out.message += "; " + where_it_is(set_, cause.ranks.front());
    out.fix = {kPySpy,
               "compare the pipeline's schedule of both ranks: who sends to whom, in which "
               "order"};
    return out;
  }

  Finding deadlock(const Cause& cause) const {
    Finding out = start("HANG106", "collective_desync", 0.75);
    out.subject.ranks = ranks_of(set_, cause.ranks);
    out.message = fmt::format("{} wait for each other in a circle", ranks_text(out.subject.ranks));
    std::string in;
    for (const uint32_t g : cause.groups) {
      if (in.size() > 200) break;
      in += fmt::format("{}{} at #{}", in.empty() ? "" : ", ", title(stuck(g)), stuck(g).seq);
    }
    if (!in.empty()) out.message += " through " + in;
    out.message +=
        ": they use their groups in different orders, or one of them is busy with an "
        "asynchronous operation still open";
    add_last(cause.ranks, out);
    out.ruled_out.push_back("a single missing rank: each of these waits for another of them");
    out.fix = {
        "issue the collectives of different groups in the same order on every rank (the "
        "places are in the evidence)",
        kPySpy};
    return out;
  }

  Finding mismatch(const Cause& cause) const {
    const StuckGroup& s = stuck(cause.groups.front());
    const bool operation = s.mismatch == Shape::kOperation;
    Finding out = start("HANG101", "collective_desync", s.majority ? 0.95 : 0.9);
    out.subject.ranks = ranks_of(set_, s.odd);
    const char* what = operation ? "operation" : "shape or dtype";
    std::string usual;
    std::string odd;
    describe_sides(s, usual, odd);
    if (s.majority) {
      out.message =
          fmt::format("{} called {} as #{} of {} where the others called {}",
                      ranks_text(out.subject.ranks), odd, s.mismatch_seq, title(s), usual);
    } else {
      out.message = fmt::format(
          "{} do not agree on #{} of {}: another {} on each side ({}; {}); "
          "which of them is wrong, the program must tell",
          ranks_text(out.subject.ranks), s.mismatch_seq, title(s), what, usual, odd);
    }
    out.message += order_hint(s);
    for (const Member& member : s.odd) {
      if (out.evidence.size() == kMaxEvidence / 2) break;
      const uint32_t at = find_collective(set_.ranks[member.rank_index], s.group, s.mismatch_seq);
      if (at != kNoId) out.evidence.push_back(entry_evidence(set_, member.rank_index, at));
    }
    if (s.majority) add_usual(s, out);
    out.ruled_out.push_back("network: the ranks asked for different things");
    out.fix = {operation
                   ? "make every rank call the same collectives in the same order: look for "
                     "a branch on the rank, on data or on a loss before the places shown"
                   : "make the tensors of this call equal on every rank: pad or drop the last "
                     "batch, gather sizes first, check the model and dtype of that rank",
               "run once with TORCH_DISTRIBUTED_DEBUG=DETAIL: it checks every call before it is "
               "made"};
    return out;
  }

  bool is_odd(const StuckGroup& s, uint32_t rank_index) const {
    return std::any_of(s.odd.begin(), s.odd.end(),
                       [&](const Member& m) { return m.rank_index == rank_index; });
  }

  std::string side(const StuckGroup& s, uint32_t rank_index, uint32_t seq) const {
    const RankTrace& trace = set_.ranks[rank_index];
    const uint32_t at = find_collective(trace, s.group, seq);
    if (at == kNoId) return "";
    const Entry& entry = trace.entries[at];
    const Call& call = set_.tables.call(entry.call);
    const std::string& place = set_.tables.place(entry.stack);
    return fmt::format("{} of {}{}", call.op, call.shapes, place.empty() ? "" : " at " + place);
  }

  void describe_sides(const StuckGroup& s, std::string& usual, std::string& odd) const {
    odd = side(s, s.odd.back().rank_index, s.mismatch_seq);
    for (const Member& member : s.arrived) {
      if (s.majority && is_odd(s, member.rank_index)) continue;
      usual = side(s, member.rank_index, s.mismatch_seq);
      if (!usual.empty()) break;
    }
    if (!s.majority) {
      usual = side(s, s.odd.front().rank_index, s.mismatch_seq);
      for (const Member& member : s.odd) {
        const std::string other = side(s, member.rank_index, s.mismatch_seq);
        if (other != usual) odd = other;
      }
    }
  }

  // Another order: the odd one left something out, or put something in.
  std::string order_hint(const StuckGroup& s) const {
    if (!s.majority) return "";
    const uint32_t odd = s.odd.front().rank_index;
    for (const Member& member : s.arrived) {
      if (is_odd(s, member.rank_index)) continue;
      if (same_call(s, odd, s.mismatch_seq, member.rank_index, s.mismatch_seq + 1)) {
        return "; that is what the others call next, so it left one call out";
      }
      if (same_call(s, odd, s.mismatch_seq + 1, member.rank_index, s.mismatch_seq)) {
        return "; it calls theirs after that, so it put one call in";
      }
      return "";
    }
    return "";
  }

  bool same_call(const StuckGroup& s, uint32_t rank_a, uint32_t seq_a, uint32_t rank_b,
                 uint32_t seq_b) const {
    const uint32_t a = find_collective(set_.ranks[rank_a], s.group, seq_a);
    const uint32_t b = find_collective(set_.ranks[rank_b], s.group, seq_b);
    if (a == kNoId || b == kNoId) return false;
    return set_.tables.call(set_.ranks[rank_a].entries[a].call).match_hash ==
           set_.tables.call(set_.ranks[rank_b].entries[b].call).match_hash;
  }

  void add_usual(const StuckGroup& s, Finding& out) const {
    size_t added = 0;
    for (const Member& member : s.arrived) {
      if (is_odd(s, member.rank_index)) continue;
      const uint32_t at = find_collective(set_.ranks[member.rank_index], s.group, s.mismatch_seq);
      if (at == kNoId) continue;
      out.evidence.push_back(entry_evidence(set_, member.rank_index, at));
      if (++added == kWitnesses) return;
    }
  }

  Finding network(const Cause& cause) const {
    if (!cause.p2p.empty()) return p2p_network(cause);
    const StuckGroup& s = stuck(cause.groups.front());
    const bool first = s.seq == 1;
    Finding out =
        start(first ? "GPU104" : "NET104", first ? "p2p_acs" : "fabric_fault", first ? 0.6 : 0.8);
    out.message = fmt::format(
        "all {} ranks of {} arrived at {} with the same operation and shape, "
        "and {} of them did not complete it",
        s.arrived.size(), title(s), collective(s, s.seq), s.not_completed);
    if (!cause.ranks.empty()) {
      out.subject.ranks = ranks_of(set_, cause.ranks);
      out.message += fmt::format(
          "; {} did not start it while others did: the device there is busy "
          "or hung with earlier work",
          ranks_text(out.subject.ranks));
    } else if (s.not_completed < s.arrived.size()) {
      out.subject.ranks = ranks_of(set_, unfinished(s));
      out.message += ": " + ranks_text(out.subject.ranks);
    } else {
      out.subject.ranks = ranks_of(set_, s.arrived);
    }
    add_witnesses(s, s.seq, out);
    add_lateness(s, out);
    out.ruled_out.push_back("a missing rank: every member is in the operation");
    out.ruled_out.push_back("another operation or shape: all are equal");
    out.ruled_out.push_back(
        first ? "cannot tell: peer-to-peer between GPUs, or a network that was never reachable; "
                "run once with NCCL_P2P_DISABLE=1 and once with NCCL_DEBUG=INFO"
              : "cannot tell: a link, a node or a GPU; errors of the ports and Xid lines decide");
    out.fix = {
        "on every node of these ranks: dmesg -T | grep -iE 'xid|nvlink|mlx5|link' and the "
        "error counters of the NICs",
        "shanty doctor on the logs with NCCL_DEBUG=INFO of the same moment: lines of "
        "closed peers vote for the node"};
    return out;
  }

  std::vector<Member> unfinished(const StuckGroup& s) const {
    std::vector<Member> out;
    std::copy_if(s.arrived.begin(), s.arrived.end(), std::back_inserter(out),
                 [&](const Member& member) { return member.seen.done_seq < s.seq; });
    return out;
  }

  // Whether somebody came long after the others, against how it was one collective before: the
  // clocks of nodes may differ.
  void add_lateness(const StuckGroup& s, Finding& out) const {
    std::vector<std::pair<int64_t, uint32_t>> shifts;
    for (const Member& member : s.arrived) {
      const RankTrace& trace = set_.ranks[member.rank_index];
      const uint32_t now = find_collective(trace, s.group, s.seq);
      const uint32_t before = find_collective(trace, s.group, s.seq - 1);
      if (now == kNoId || before == kNoId) continue;
      shifts.emplace_back(
          trace.entries[now].created_unix_ns - trace.entries[before].created_unix_ns,
          member.rank_index);
    }
    if (shifts.size() < 2) return;
    std::sort(shifts.begin(), shifts.end());
    const auto [latest, index] = shifts.back();
    const double late_s = ns_to_seconds(latest - shifts[shifts.size() / 2].first);
    if (late_s >= kLateS) {
      out.ruled_out.push_back(fmt::format(
          "not ruled out: rank {} came {} after the others (by its own clock since the collective "
          "before), so it may be slow rather than stuck",
          set_.ranks[index].rank, format_duration(late_s)));
    } else {
      out.ruled_out.push_back(
          fmt::format("a late rank: all came within {} of each other",
                      format_duration(ns_to_seconds(latest - shifts.front().first))));
    }
  }

  Finding p2p_network(const Cause& cause) const {
    Finding out = start("NET104", "fabric_fault", 0.75);
    out.subject.ranks = ranks_of(set_, cause.ranks);
    const PendingP2p& p2p = analysis_.p2p[cause.p2p.front()];
    out.message = fmt::format(
        "{}: both ends of a send and receive are posted with the same size, "
        "and it does not complete",
        ranks_text(out.subject.ranks));
    out.evidence = {entry_evidence(set_, p2p.rank_index, p2p.entry),
                    entry_evidence(set_, p2p.peer_index, p2p.peer_entry)};
    out.fix = {"check the link between the nodes of these two ranks (error counters, dmesg)"};
    return out;
  }

  Finding p2p_mismatch(const Cause& cause) const {
    Finding out = start("HANG101", "collective_desync", 0.9);
    out.subject.ranks = ranks_of(set_, cause.ranks);
    const PendingP2p& p2p = analysis_.p2p[cause.p2p.front()];
    out.message = fmt::format("{} do not agree on the size of a send and its receive",
                              ranks_text(out.subject.ranks));
    out.evidence = {entry_evidence(set_, p2p.rank_index, p2p.entry),
                    entry_evidence(set_, p2p.peer_index, p2p.peer_entry)};
    out.fix = {"send the shape first, or make both ends compute it from the same configuration"};
    return out;
  }

  Finding no_dump(const Cause& cause) const {
    Finding out = start("RUN101", "rank_died_early", 0.85);
    if (!cause.groups.empty()) {
      const StuckGroup& s = stuck(cause.groups.front());
      out.subject.ranks = s.without_dump;
      out.message = fmt::format(
          "there is no dump of {}, and all other {} ranks of {} wait at {}: "
          "{} the suspect",
          ranks_text(s.without_dump), s.arrived.size(), title(s), collective(s, s.seq),
          s.without_dump.size() == 1 ? "it is" : "they are");
      add_witnesses(s, s.seq, out);
    } else {
      const PendingP2p& p2p = analysis_.p2p[cause.p2p.front()];
      if (p2p.peer >= 0) out.subject.ranks = {p2p.peer};
      out.message = fmt::format("there is no dump of {}, which a send or receive waits for",
                                ranks_text(out.subject.ranks));
      out.evidence = {entry_evidence(set_, p2p.rank_index, p2p.entry)};
    }
    out.ruled_out.push_back(
        "cannot tell: that rank died, was killed, never came, or its dump was "
        "not collected");
    out.fix = {
        "look at how that rank ended: its log's last lines, the pod's last state "
        "(kubectl describe pod), dmesg of its node",
        "collect its dump too, if it wrote one, and run doctor on all of them"};
    return out;
  }

  const DumpSet& set_;
  const Analysis& analysis_;
};

Finding unread(const DumpSet& set) {
  Finding out;
  out.code = "HANG108";
  const bool refused = std::any_of(set.unread.begin(), set.unread.end(),
                                   [](const DumpSet::Unread& one) { return one.refused; });
  out.severity = Severity::kWarning;
  out.confidence = 1;
  out.message = fmt::format("{} dump{} {} and {} left out", set.unread.size(),
                            set.unread.size() == 1 ? "" : "s",
                            refused ? "would execute something or is broken" : "cannot be read",
                            set.unread.size() == 1 ? "was" : "were");
  for (const DumpSet::Unread& one : set.unread) {
    if (out.evidence.size() == kMaxEvidence) break;
    out.evidence.push_back({one.file, 0, one.why});
    out.subject.files.push_back(one.file);
  }
  return out;
}

Finding nothing_pending(const DumpSet& set, const Analysis& analysis) {
  Finding out;
  out.code = "HANG107";
  out.severity = Severity::kNote;
  out.confidence = analysis.missing.empty() ? 0.9 : 0.6;
  out.message = fmt::format(
      "no collective is stuck in the dumps of {} ranks: everyone arrived at "
      "what was called, and it completed",
      set.ranks.size());
  if (!analysis.missing.empty()) {
    out.message += fmt::format("; there is no dump of {}", ranks_text(analysis.missing));
  }
  for (uint32_t i = 0; i < std::min<size_t>(set.ranks.size(), kWitnesses); ++i) {
    out.evidence.push_back(last_evidence(set, i));
  }
  return out;
}

// Causes of one kind at the same place of equal groups (every TP group at once) are one finding.
std::vector<Cause> merge_equal(const Analysis& analysis) {
  std::map<std::pair<int, uint32_t>, size_t> merged;
  std::vector<Cause> out;
  for (const Cause& cause : analysis.causes) {
    const bool mergeable = cause.kind == Cause::Kind::kNetwork && cause.p2p.empty();
    if (!mergeable) {
      out.push_back(cause);
      continue;
    }
    const auto key =
        std::pair(static_cast<int>(cause.kind), analysis.stuck[cause.groups.front()].seq);
    const auto [at, is_new] = merged.emplace(key, out.size());
    if (is_new) {
      out.push_back(cause);
    } else {
      Cause& whole = out[at->second];
      whole.groups.insert(whole.groups.end(), cause.groups.begin(), cause.groups.end());
      whole.ranks.insert(whole.ranks.end(), cause.ranks.begin(), cause.ranks.end());
    }
  }
  return out;
}

}  // namespace

std::vector<Finding> diagnose_set(DumpSet& set, unsigned threads) {
  std::vector<Finding> out;
  if (!set.ranks.empty()) {
    const Analysis analysis = analyse(set, threads);
    const Writer writer(set, analysis);
    const std::vector<Cause> causes = merge_equal(analysis);
    for (const Cause& cause : causes) {
      if (out.size() == kMaxFlightFindings) break;
      out.push_back(writer.write(cause));
      const size_t groups = cause.groups.size();
      if (cause.kind == Cause::Kind::kNetwork && groups > 1) {
        out.back().message += fmt::format("; the same in {} more groups", groups - 1);
      }
    }
    if (causes.size() > out.size()) {
      out.back().ruled_out.push_back(fmt::format(
          "{} more causes with fewer waiting ranks are left out", causes.size() - out.size()));
    }
    if (causes.empty()) out.push_back(nothing_pending(set, analysis));
  }
  if (!set.unread.empty()) out.push_back(unread(set));
  return out;
}

std::vector<Finding> diagnose_flight(std::span<const FlightFile> files, unsigned threads) {
  std::vector<Finding> out;
  const auto sets = load_dumps(files, threads);
  for (const auto& set : sets) {
    for (Finding& finding : diagnose_set(*set, threads)) {
      if (sets.size() > 1 && !set->title.empty()) {
        finding.message = set->title + ": " + finding.message;
      }
      out.push_back(std::move(finding));
    }
  }
  return out;
}

}  // namespace shanty::flight
