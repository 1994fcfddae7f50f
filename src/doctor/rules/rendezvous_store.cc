#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/launcher_saw.h"
#include "doctor/rule.h"
#include "doctor/rules/store_clients.h"

namespace shanty {
namespace {

constexpr int64_t kRefusedOnWindows = 10061;

Records refusals(const Case& of) {
  Records out;
  for (const Record* record : of.all({"connect_failed", "nccl_connect", "store_retry"})) {
    if (record->number("errno") == 111 || record->number("errno") == kRefusedOnWindows ||
        record->get("error").find("Connection refused") != std::string_view::npos) {
      out.push_back(record);
    }
  }
  return out;
}

bool blocked(const Case& of) {
  for (const Record* record : of.all("connect_failed")) {
    if (record->number("errno") == 110 || record->number("errno") == 113) return true;
  }
  return of.has("permission");
}

// Lines of more than one process, as far as they tell who said them.
bool several_speak(const Records& lines) {
  const Record& first = *lines.front();
  return std::any_of(lines.begin(), lines.end(), [&first](const Record* line) {
    return line->file != first.file || line->rank != first.rank || line->node != first.node ||
           line->pod != first.pod;
  });
}

// Everyone is a client and times out; nobody says that he hosts.
void nobody_hosts(const Case& of, Hypotheses& out) {
  Records clients = of.all("client_timeout");
  if (clients.empty() || !of.unresolved().empty() || blocked(of)) return;
  if (of.has("hosts_store") || of.has("clients_joined") || of.has("bind_failed")) return;
  if (of.has("istio")) return;
  // One process's word, or no answer at all: others may host it behind a firewall.
  const bool several = several_speak(clients) || !refusals(of).empty();
  Draft draft(of, "RDZV101", "rendezvous_store", several ? 0.85 : 0.65, Nearness::kStructure);
  draft.show(clients).show(refusals(of)).show(of.all({"rdzv_connection", "rdzv_timeout"}));
  draft.show(of.all({"launch_endpoint", "launch_max"})).blame(clients);
  std::set<std::string> endpoints;
  for (const Record* record : of.all("launch_endpoint")) {
    endpoints.insert(std::string(record->get("value")));
  }
  const Record& client = *clients.front();
  if (!draft.blames_someone()) draft.node(std::string(client.get("host")));
  draft.message(fmt::format("nobody {} the store{}: {}", several ? "hosts" : "answers for",
                            client.get("host").empty()
                                ? ""
                                : fmt::format(" at {}:{}", client.get("host"), client.get("port")),
                            several ? "every node only tries to connect"
                                    : "it is not hosted there, or this process does not reach it"));
  draft.rule_out("DNS: the name has an address");
  if (refusals(of).empty()) {
    draft.fix(
        "from a node: nc -vz HOST PORT; no answer at all means a firewall, refused that nobody "
        "hosts it");
  }
  if (!refusals(of).empty()) draft.rule_out("firewall: connections are refused, not dropped");
  draft.rule_out("a failure in NCCL: it was not reached");
  if (endpoints.size() > 1) draft.rule_out("one endpoint for all: the nodes name different ones");
  draft.fix(
      "the endpoint must be a name or address of node 0 itself, not of a ClusterIP Service; "
      "else --rdzv-conf is_host=1 on node 0");
  draft.fix(
      "the same --nnodes and --rdzv-endpoint on every node; exactly one agent prints \"hosts "
      "the TCP store\"");
  draft.prevent("shanty run needs no rendezvous store");
  out.push_back(draft.done());
}

// The store cannot even be opened where it should be.
void cannot_host(const Case& of, Hypotheses& out) {
  const Records lines = of.all("bind_refused");
  if (lines.empty() || of.has("bind_failed")) return;
  const bool address = lines.front()->number("errno") == 99;
  Draft draft(of, "RDZV101", "rendezvous_store", 0.85);
  draft.show(lines).blame(lines);
  draft.message(fmt::format(
      "{} cannot host the store at {}: {}", of.place(*lines.front()), lines.front()->get("where"),
      address ? "this is no address of that host" : "the port is below 1024 and needs root"));
  draft.rule_out("a port that is taken: the error is another one");
  draft.fix(address ? "MASTER_ADDR (or the endpoint) must be an address of node 0 itself: ip -br a"
                    : "a port above 1023");
  out.push_back(draft.done());
}

void refused(const Case& of, Hypotheses& out) {
  const Records lines = refusals(of);
  if (lines.empty() || of.has("client_timeout") || !of.unresolved().empty()) return;
  bool restarted = false;
  Draft draft(of, "RDZV101", "rendezvous_store", 0.75, Nearness::kStructure);
  draft.show(lines);
  for (const PodFact& pod : of.facts().pods) {
    if (pod.restarts <= 0) continue;
    restarted = true;
    draft.pod(pod.name).show(
        {pod.where.file, pod.where.line, fmt::format("restartCount: {}", pod.restarts)});
  }
  if (!restarted) draft.blame(lines);
  if (!draft.blames_someone()) {
    for (const Record* record : lines) draft.node(of.who_is(record->get("peer")));
  }
  draft.message(restarted ? "a pod restarted alone and cannot join: the port of the first start is "
                            "gone, the others wait for the old process"
                          : "connections of " + of.place(*lines.front()) +
                                " are refused: nobody listens there any more, or not yet");
  draft.rule_out("firewall: refused means that the host answered");
  draft.fix(
      "restart all pods of the job together; kubectl logs --previous of the one that restarted "
      "says why");
  out.push_back(draft.done());
}

void closed(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"rdzv_closed", "stop_waiting"});
  if (lines.empty()) return;
  Draft draft(of, "RDZV101", "rendezvous_store", 0.7, Nearness::kStructure);
  draft.show(lines).blame(lines);
  draft.message(
      of.has("stop_waiting")
          ? "the store on that port speaks another language: another torch version, or "
            "another program"
          : "the rendezvous was closed while nodes still wanted in: an agent had left, or "
            "the id is that of a finished job");
  draft.fix("a fresh --rdzv-id for each start; the same torch on all nodes");
  draft.fix("find the agent that left first: its log ends before the others'");
  out.push_back(draft.done());
}

// Agents lost the store, and nothing says why its host went away.
void lost(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"rdzv_connection", "rdzv_timeout", "rdzv_victim"});
  if (lines.empty() || of.has("client_timeout") || !of.unresolved().empty() || blocked(of)) return;
  // Before the agents met there is nobody whose end it could echo.
  const bool met = of.has("rdzv_done") || of.trained() || !of.ranks().empty();
  const bool only_victims = met && !of.has("rdzv_connection") && !of.has("rdzv_timeout");
  Draft draft(of, "RDZV101", "rendezvous_store", only_victims ? 0.45 : 0.6,
              only_victims ? Nearness::kPeers : Nearness::kStructure);
  draft.show(lines).show(of.all({"hosts_store", "launch_endpoint"})).blame(lines.front());
  draft.message(
      "the agents cannot reach the rendezvous store any more, or too few nodes came to it: "
      "the agent that hosted it left, or never started");
  draft.fix(
      "find the agent that left first: its log ends before the others'; restart all of them "
      "together");
  out.push_back(draft.done());
}

// Clients that should meet hold on to different stores.
void out_of_step(const Case& of, Hypotheses& out) {
  const Record* joined = of.first("clients_joined");
  const Records broken = of.all({"gloo_closed", "store_closed"});
  if (!joined || broken.empty() || of.has("client_timeout")) return;
  if (!others_lost_a_store(of, *joined)) return;
  Draft draft(of, "RDZV101", "rendezvous_store", 0.8, Nearness::kStructure);
  draft.show(joined).show(broken);
  bool named = false;
  for (const PodFact& pod : of.facts().pods) {
    if (pod.restarts > 0) {
      named = true;
      draft.pod(pod.name).show(pod.where);
    }
  }
  if (!named) draft.blame(broken);
  draft.message(
      fmt::format("only {} of {} clients came to the new store, while another still spoke "
                  "to the old one: they did not restart together",
                  joined->get("joined"), joined->get("expected")));
  draft.rule_out("network: the old connection worked until its other end was replaced");
  draft.fix(
      "restart all ranks together (JobSet failure policy, Recreate); compare startTime of pods");
  out.push_back(draft.done());
}

// Each process has its own idea of the master.
void several_masters(const Case& of, Hypotheses& out) {
  std::set<std::string> masters;
  bool port_zero = false;
  Records lines;
  for (const Record* record : of.all("env_line")) {
    if (record->get("port").empty()) continue;
    port_zero |= record->get("port") == "0";
    masters.insert(std::string(record->get("addr")) + ":" + std::string(record->get("port")));
    lines.push_back(record);
  }
  if (!port_zero && masters.size() < 2) return;
  Draft draft(of, "RDZV101", "rendezvous_store", 0.85, Nearness::kStructure);
  draft.show(lines).blame(lines);
  draft.message(port_zero
                    ? "MASTER_PORT is 0: every rank opens a store of its own and waits for ever"
                    : fmt::format("the ranks name {} different masters", masters.size()));
  draft.fix("set MASTER_ADDR and MASTER_PORT only where they are not set: the launcher did it");
  out.push_back(draft.done());
}

// What the other rules know better.
bool is_told_otherwise(const Case& of) {
  for (const auto event : {"client_timeout", "connect_failed", "bind_failed", "bind_refused",
                           "rdzv_timeout", "rdzv_closed", "rdzv_connection", "store_wait",
                           "clients_joined", "gloo_mesh", "gloo_connect", "gloo_no_interface",
                           "env_missing", "stop_waiting", "store_closed", "gloo_closed"}) {
    if (of.has(event)) return true;
  }
  return !of.unresolved().empty();
}

// What stands between `opening` and the next `closing`, which both are there.
std::string inside(std::string_view text, std::string_view opening, char closing) {
  text.remove_prefix(text.find(opening) + opening.size());
  return std::string(text.substr(0, text.find(closing)));
}

// An exception of any kind out of the code in which the processes meet.
void raised_at_meeting(const Case& of, Hypotheses& out) {
  if (is_told_otherwise(of) || of.trained()) return;
  for (const Record* error : of.all("exception")) {
    if (!of.raised_under(*error, "rdzv_frame")) continue;
    const bool denied = error->get("what").find("Permission denied") != std::string_view::npos;
    const bool file = denied && error->get("what").find("open(") != std::string_view::npos;
    Draft draft(of, "RDZV101", "rendezvous_store", 0.75);
    draft.show(error).show(of.all("rdzv_frame")).blame(error);
    draft.message(of.place(*error) +
                  " failed where the processes meet, before any training: " + said(*error, 140));
    draft.rule_out("the network: no connection was refused or timed out");
    if (const auto alone = failed_alone(of); alone && !draft.blames_someone()) {
      draft.rank(alone->rank).node(alone->node);
    }
    if (file) draft.file(inside(error->get("what"), "open(", ')'));
    if (file) draft.fix("a path that all processes may write, on a file system that they share");
    if (denied && !file) draft.fix("ports below 1024 need root: MASTER_PORT above 1023");
    draft.fix("compare init_method, MASTER_ADDR, MASTER_PORT and torch's version on all nodes");
    out.push_back(draft.done());
    return;
  }
}

}  // namespace

void rendezvous_store_rule(const Case& of, Hypotheses& out) {
  several_masters(of, out);
  closed(of, out);
  out_of_step(of, out);
  nobody_hosts(of, out);
  cannot_host(of, out);
  refused(of, out);
  lost(of, out);
  raised_at_meeting(of, out);
}

}  // namespace shanty
