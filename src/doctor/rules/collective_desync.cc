#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/behaviour.h"
#include "doctor/ras_report.h"
#include "doctor/rule.h"
#include "doctor/stall_lists.h"
#include "text/words.h"

namespace shanty {
namespace {

constexpr int64_t kWarmUp = 5;  // collectives in which a cold compiler may be what is late

std::string shape_of(std::string_view fingerprint) {
  const size_t at = fingerprint.find("TensorShape=[");
  const size_t end = at == fingerprint.npos ? at : fingerprint.find(']', at);
  return end == fingerprint.npos ? "" : std::string(fingerprint.substr(at + 12, end - at - 11));
}

void fingerprints(const Case& of, Hypotheses& out) {
  const Records lines = of.all("fingerprint");
  if (lines.empty()) return;
  // Each line names a pair; who has what most others have not is at fault.
  std::map<int, std::string> told;
  for (const Record* record : lines) {
    const int a = static_cast<int>(record->number("a"));
    const int b = static_cast<int>(record->number("b"));
    if (a >= 0) told[a] = record->get("fa");
    if (b >= 0) told[b] = record->get("fb");
  }
  std::map<std::string, std::vector<int>> groups;
  for (const auto& [rank, print] : told) groups[print].push_back(rank);
  size_t fewest = SIZE_MAX;
  for (const auto& [print, ranks] : groups) fewest = std::min(fewest, ranks.size());
  Draft draft(of, "HANG101", "collective_desync", 0.95);
  draft.show(lines);
  size_t with_fewest = 0;
  for (const auto& [print, ranks] : groups) with_fewest += ranks.size() == fewest ? 1 : 0;
  for (const auto& [print, ranks] : groups) {
    if (ranks.size() != fewest && with_fewest == 1) continue;
    for (const int rank : ranks) draft.rank(rank);
  }
  const Record& first = *lines.front();
  const std::string fa = shape_of(first.get("fa"));
  const std::string fb = shape_of(first.get("fb"));
  draft.message(fmt::format("ranks {} and {} run different collectives{}", first.get("a"),
                            first.get("b").empty() ? "others" : first.get("b"),
                            fa.empty() || fa == fb ? "" : ": shapes " + fa + " and " + fb));
  draft.rule_out("network: the collectives were compared before they ran");
  draft.fix(
      "find the branch that only some ranks take: data, an unused part of the model, padding");
  out.push_back(draft.done());
}

void sizes(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"nccl_size_mismatch", "gloo_size"});
  if (lines.empty()) return;
  Draft draft(of, "HANG101", "collective_desync", 0.88);
  draft.show(lines);
  // Settings that differ between hosts do the same.
  std::map<std::string, std::map<std::string, Records>> env;
  for (const Record* record : of.all("nccl_env")) {
    const std::string_view name = record->get("name");
    if (name == "NCCL_SOCKET_IFNAME" || name == "NCCL_IB_HCA" || name == "NCCL_DEBUG") continue;
    env[std::string(name)][std::string(record->get("value"))].push_back(record);
  }
  std::set<std::string> setters;
  for (const auto& [name, values] : env) {
    if (values.size() > 1 || (values.size() == 1 && of.nodes().size() > 1)) {
      std::set<std::string> nodes;
      const Records* odd = &values.begin()->second;
      for (const auto& [value, records] : values) {
        for (const Record* record : records) nodes.insert(record->node);
        if (records.size() < odd->size()) odd = &records;
      }
      if (values.size() > 1 || nodes.size() < of.nodes().size()) {
        draft.show(*odd).blame(*odd);
        setters.insert(name);
      }
    }
  }
  for (const Record* record : lines) {
    if (!record->get("peer").empty()) draft.node(of.who_is(record->get("peer")));
    if (record->get("peer").empty() && setters.empty()) draft.blame(record);
  }
  const std::string difference = setters.empty() ? "" : ": " + *setters.begin() + " differs";
  draft.message(fmt::format("two ranks send and receive different sizes ({} and {} bytes){}",
                            lines.front()->get("a"), lines.front()->get("b"), difference));
  draft.rule_out("network: the bytes arrive");
  draft.fix("the same NCCL_PROTO, NCCL_ALGO, NCCL_BUFFSIZE on all nodes (also in /etc/nccl.conf)");
  draft.fix("else TORCH_DISTRIBUTED_DEBUG=DETAIL names the operation and its shapes");
  out.push_back(draft.done());
}

// NCCL_DEBUG_SUBSYS=COLL prints every call: the first number at which ranks differ.
void calls(const Case& of, Hypotheses& out) {
  struct Call {
    std::string what;
    const Record* line = nullptr;
  };
  std::map<int64_t, std::map<int, Call>> by_count;
  for (const Record* record : of.all("nccl_op")) {
    if (record->rank < 0) continue;
    const int64_t count = std::strtoll(std::string(record->get("count")).c_str(), nullptr, 16);
    const std::string what =
        std::string(record->get("op")) + " of " + std::string(record->get("numel")) + " elements";
    by_count[count].emplace(record->rank, Call{what, record});
  }
  for (const auto& [count, ranks] : by_count) {
    std::map<std::string, std::vector<int>> groups;
    for (const auto& [rank, call] : ranks) groups[call.what].push_back(rank);
    if (groups.size() < 2) continue;
    // With several communicators numbers repeat; then no group is a majority.
    const auto most = std::max_element(
        groups.begin(), groups.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (most->second.size() * 2 < ranks.size()) return;
    Draft draft(of, "HANG101", "collective_desync", 0.85, Nearness::kStructure);
    for (const auto& [what, who] : groups) {
      draft.show(ranks.at(who.front()).line);
      if (what == most->first && groups.size() > 1 && most->second.size() * 2 > ranks.size())
        continue;
      for (const int rank : who) draft.rank(rank);
    }
    draft.message(fmt::format(
        "from call {} on the ranks differ: {} where others call {}", count,
        groups.begin()->first == most->first ? groups.rbegin()->first : groups.begin()->first,
        most->first));
    draft.rule_out("network: the ranks call different things");
    draft.fix("find the branch that only some ranks take");
    if (of.has("timeout") || of.has("nccl_error") || !of.trained()) out.push_back(draft.done());
    return;
  }
}

void reports(const Case& of, Hypotheses& out) {
  const Records lines = of.all("desync_behind");
  if (lines.empty()) return;
  Draft draft(of, "HANG101", "collective_desync", 0.9, Nearness::kStructure);
  draft.show(lines).show(of.all("desync_joined"));
  for (const Record* record : lines) {
    for (const int rank : numbers_in(record->get("ranks"), kMaxNamedRanks)) draft.rank(rank);
  }
  draft.message(fmt::format("rank {} did not join collective {}", lines.front()->get("ranks"),
                            lines.front()->get("seq")));
  draft.fix("what did that rank do instead: its stack by py-spy dump, its last line of log");
  out.push_back(draft.done());
}

void told_by_nccl(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_mismatch");
  if (lines.empty()) return;
  Draft draft(of, "HANG101", "collective_desync", 0.88);
  draft.show(lines);
  for (const Record* record : lines) draft.rank(static_cast<int>(record->number("about")));
  draft.message(lines.front()->get("about").empty()
                    ? "the ranks call different collectives"
                    : fmt::format("at and around rank {} other collectives are called than on the "
                                  "rest",
                                  lines.front()->get("about")));
  draft.rule_out("network: NCCL compared the calls before they ran");
  draft.fix("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL prints every call of every rank");
  out.push_back(draft.done());
}

// How many operations each rank has launched, as NCCL's RAS saw it at one moment: ranks are apart
// in every job that runs. Counts that stand still, or a timeout, tell who is waited for.
void counts_of_ras(const Case& of, Hypotheses& out) {
  const auto report = of.ras();
  for (const RasParagraph& paragraph : report) {
    if (paragraph.kind != RasParagraph::Kind::kUnlike || paragraph.how_many.size() < 2) continue;
    const bool stands = stands_still(report, paragraph) || of.has("timeout");
    const std::vector<int> late = lagging_ranks(paragraph);
    const int64_t behind = paragraph.how_many.begin()->second;
    const std::string who = late.empty()
                                ? fmt::format("{} ranks that the report does not list", behind)
                                : rank_list(late);
    Draft draft(of, "HANG101", "collective_desync", stands ? 0.75 : 0.4, Nearness::kStructure);
    draft.severity(stands ? Severity::kError : Severity::kNote);
    for (const Evidence& line : paragraph.lines) draft.show(line);
    for (const int rank : late) draft.rank(rank);
    draft.message(fmt::format(
        "{} launched {} {} operations, others {}{}", who, paragraph.how_many.begin()->first,
        paragraph.what, paragraph.how_many.rbegin()->first,
        stands ? ": they are waited for" : " at this moment, which alone is no fault"));
    draft.rule_out("network: an operation counts when it is launched, not when it is done");
    if (!stands) draft.fix("ask ncclras again: counts that stay as they are name who holds it up");
    if (late.empty()) draft.fix("ncclras -v lists all ranks");
    draft.fix("py-spy dump --pid PID of a rank that is behind: what does it do instead?");
    out.push_back(draft.done());
    if (stands) return;
  }
}

// Horovod before 0.14 listed who had come. Tensors that wait for different ranks are called in
// different order, or on some ranks alone.
void ready_lists(const Case& of, Hypotheses& out) {
  std::set<std::vector<int>> lists;
  Records lines;
  for (const Record* record : of.all("stall_ready")) {
    for (const std::string_view list : lists_after(record->text, "[ready ranks:")) {
      std::vector<int> ranks = numbers_in(list, kMaxNamedRanks);
      std::sort(ranks.begin(), ranks.end());
      if (!ranks.empty()) lists.insert(std::move(ranks));
    }
    lines.push_back(record);
  }
  if (lists.size() < 2) return;
  const auto fewest = std::min_element(
      lists.begin(), lists.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  Draft draft(of, "HANG101", "collective_desync", 0.8, Nearness::kStructure);
  draft.show(lines);
  for (const int rank : *fewest) draft.rank(rank);
  draft.message(fmt::format("{} wait for other tensors than the rest", rank_list(*fewest)));
  draft.rule_out("a rank that is only late: each side waits for the other");
  draft.fix("the same tensors in the same order on all ranks: data, branches, unused variables");
  out.push_back(draft.done());
}

// Ranks that Horovod misses, as many as have ended their training: their data were fewer.
void finished_while_others_wait(const Case& of, Hypotheses& out) {
  Records lines = stall_lines(of);
  if (lines.empty()) return;
  const std::set<int> missing = missing_of_stall(of, lines);
  Records ends;
  for (const Record* record : of.all("finished")) {
    const bool of_an_epoch = record->get("what").find("poch") != std::string_view::npos;
    const bool theirs = record->rank < 0 ? !of_an_epoch
                                         : missing.contains(record->rank) &&
                                               behaviour_of(of, record->rank).line == record;
    if (theirs) ends.push_back(record);
  }
  if (missing.empty() || ends.size() < missing.size()) return;
  Draft draft(of, "HANG101", "collective_desync", 0.75, Nearness::kStructure);
  draft.show(ends).show(lines);
  for (const int rank : missing) draft.rank(rank);
  draft.message(fmt::format("{} had finished while the others went on",
                            rank_list({missing.begin(), missing.end()})));
  draft.rule_out("network: the others wait for ranks that call no collective any more");
  draft.fix("the same number of batches on every rank, or horovod.torch.join()");
  out.push_back(draft.done());
}

void timeouts(const Case& of, const TimeoutView& view, Hypotheses& out) {
  std::vector<int> odd = view.odd_op.empty() ? view.odd_size : view.odd_op;
  if (!odd.empty()) {
    Draft draft(of, "HANG101", "collective_desync", 0.9, Nearness::kStructure);
    draft.show(view.lines);
    for (const int rank : odd) draft.rank(rank);
    const RankInGroup& one = view.ranks.at(odd.front());
    draft.message(view.odd_op.empty()
                      ? fmt::format("{} had {} elements in {} number {}, the others {}",
                                    rank_list(odd), one.numel, view.op, view.sequence, view.numel)
                      : fmt::format("{} waited in {} number {}, the others in {} number {}",
                                    rank_list(odd), one.op, one.sequence, view.op, view.sequence));
    draft.rule_out("network: the ranks wait for different collectives");
    draft.fix("find the branch that only some ranks take: data, conditions on values, early exits");
    draft.fix("TORCH_DISTRIBUTED_DEBUG=DETAIL names the first difference");
    out.push_back(draft.done());
    return;
  }
  if (view.late.empty()) return;
  std::vector<int> finished;
  std::vector<int> unknown;
  Records lines;
  for (const int rank : view.late) {
    const Behaviour was = behaviour_of(of, rank);
    if (was.doing == Doing::kFinished || was.doing == Doing::kLeft) {
      finished.push_back(rank);
      lines.push_back(was.line);
    } else if (was.doing == Doing::kUnknown) {
      unknown.push_back(rank);
      if (was.line) lines.push_back(was.line);
    }
  }
  const bool sure = !finished.empty();
  // Where most ranks are silent the lines are an excerpt: it tells nothing of those it leaves out.
  if (!sure && is_excerpt(of, view)) return;
  if (!sure && (unknown.empty() || view.sequence <= kWarmUp)) return;
  const bool left = sure && behaviour_of(of, finished.front()).doing == Doing::kLeft;
  if (left) return;  // that rank's own class
  Draft draft(of, "HANG101", "collective_desync", sure ? 0.9 : 0.55, Nearness::kStructure);
  draft.show(lines).show(view.lines);
  const std::vector<int>& late = sure ? finished : unknown;
  for (const int rank : late) draft.rank(rank);
  draft.message(
      fmt::format("{} did not join {} number {}{}", rank_list(late), view.op, view.sequence,
                  sure ? ": it had finished its data while the others went on"
                       : ", all others wait: it left the loop early, or does something else"));
  draft.rule_out("network: the others wait for a rank that never called the collective");
  draft.fix(
      "the same number of batches on every rank: drop_last, DistributedSampler, Join, or an "
      "all-reduced stop flag");
  if (!sure) {
    draft.fix(fmt::format("to be sure: py-spy dump --pid of {}, or the flight recorder's dumps",
                          rank_list(late)));
  }
  out.push_back(draft.done());
}

}  // namespace

void collective_desync_rule(const Case& of, Hypotheses& out) {
  fingerprints(of, out);
  sizes(of, out);
  reports(of, out);
  told_by_nccl(of, out);
  calls(of, out);
  counts_of_ras(of, out);
  ready_lists(of, out);
  finished_while_others_wait(of, out);
  const auto views = view_timeouts(of);
  if (!views.empty()) timeouts(of, views.front(), out);
}

}  // namespace shanty
