#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr int64_t kFlushed = 5;
constexpr int64_t kTerminated = -15;

// A process that was seen to end before the first error of a card: it is the peer that is gone.
bool died_before(const Case& of, const Record& error) {
  const Records ends = of.all({"ray_worker_died", "worker_failed", "killed", "sigkill",
                               "oom_killed", "oomkilled", "slurm_oom", "segfault"});
  return std::any_of(ends.begin(), ends.end(), [&error](const Record* end) {
    if (end->event == "worker_failed" && end->number("code", 0) == kTerminated) return false;
    if (end->file == error.file) return end->line < error.line;
    return end->own_time && error.own_time && end->unix_ns < error.unix_ns;
  });
}

}  // namespace

void fabric_fault_rule(const Case& of, Hypotheses& out) {
  Records events;
  for (const Record* record : of.all("nccl_port_event")) {
    if (is_port_fault(*record)) events.push_back(record);
  }
  Records errors;
  std::map<std::string, size_t> votes;
  for (const Record* record : of.all("nccl_wc_error")) {
    if (record->number("status") == kFlushed || is_refused_request(*record)) continue;
    errors.push_back(record);
    if (!record->get("peer").empty()) ++votes[of.who_is(record->get("peer"))];
  }
  for (const Record* record : of.all("rdma_completion")) errors.push_back(record);
  const Records down = of.all("link_down");
  if (events.empty() && errors.empty()) {
    if (down.empty() || !of.has("timeout")) return;
  }
  if (events.empty() && !errors.empty() && died_before(of, *errors.front())) return;
  const bool saw_start = of.has("nccl_bootstrap") || of.has("nccl_init") || of.has("nccl_network");
  if (events.empty() && !errors.empty() && !of.trained() && !of.has("nccl_rings") && saw_start) {
    return;
  }
  // Without a sign that it ever worked the two ends may not fit each other.
  const bool worked = saw_start || of.trained() || of.has("nccl_rings") || of.has("timeout");
  Draft draft(of, "NET104", "fabric_fault",
              !events.empty() ? 0.94
              : worked        ? 0.85
                              : 0.6,
              events.empty() ? Nearness::kStructure : Nearness::kCause);
  draft.show(events).show(down).show(errors);
  std::string who;
  if (!events.empty() || !down.empty()) {
    draft.blame(events.empty() ? down : events);
    const Record& first = events.empty() ? *down.front() : *events.front();
    for (const Record* record : events) draft.device(std::string(record->get("hca")));
    who = first.node.empty() ? of.place(first) : first.node;
    draft.message("a network port of " + who + " reports \"" +
                  (events.empty() ? "link down" : std::string(first.get("what"))) +
                  "\"; the errors of the others follow");
    draft.rule_out("the nodes that crashed first: they name " + who + " as their peer");
  } else {
    const auto most =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != votes.end()) {
      who = most->first;
      draft.node(who);
      for (const int rank : of.ranks_on(who)) draft.rank(rank);
    } else {
      draft.blame(errors);
    }
    draft.message("RDMA to " + (who.empty() ? std::string("a peer") : who) +
                  (worked ? " gets no answer any more in the middle of training: its link, card or "
                            "host failed"
                          : " gets no answer: its link, card or host failed, or the two ends do "
                            "not fit (GID, MTU, VLAN)"));
  }
  if (worked) {
    draft.rule_out("configuration: it worked until then");
  } else {
    draft.fix(
        "to decide: does it fail on the first message of every run? Then it is the configuration: "
        "show_gids and NCCL_IB_GID_INDEX, active_mtu on both ends");
  }
  draft.rule_out("status 5 (flushed, vendor 249): only what was still in the queue");
  draft.fix(
      fmt::format("on {}: ibstat, dmesg and the switch port's error counters; take it out until "
                  "it is clean",
                  who.empty() ? "that node" : who));
  draft.fix("NCCL_IB_TIMEOUT=22 lets short flaps pass");
  out.push_back(draft.done());
}

}  // namespace shanty
