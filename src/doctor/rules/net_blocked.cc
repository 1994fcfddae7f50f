#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"
#include "doctor/rules/store_clients.h"

namespace shanty {
namespace {

// What NCCL says when its connect() ends at once: a firewall that resets, an address that is not
// reachable from here.
bool is_aborted(const Record& record) {
  return record.get("error").starts_with("Software caused connection abort");
}

bool is_blocked_errno(const Record& record) {
  const int64_t number = record.number("errno");
  if (number == 110 || number == 113 || number == 1 || number == 101) return true;
  const std::string_view error = record.get("error");
  return error.starts_with("Connection timed out") || error.starts_with("No route to host") ||
         error.starts_with("Operation not permitted") ||
         error.starts_with("Network is unreachable") || is_aborted(record);
}

Records timed_out(const Case& of) {
  Records out = of.all("permission");
  for (const Record* record :
       of.all({"connect_failed", "nccl_connect", "gloo_mesh", "gloo_connect"})) {
    if (is_blocked_errno(*record)) out.push_back(record);
  }
  return out;
}

bool refused(const Case& of) {
  for (const Record* record : of.all({"connect_failed", "nccl_connect"})) {
    if (record->number("errno") == 111 || record->get("error").starts_with("Connection refused")) {
      return true;
    }
  }
  return false;
}

// Somebody listened while others could not come in.
bool somebody_hosts(const Case& of) {
  return of.has("hosts_store") || of.has("clients_joined") || of.has("connected");
}

bool bad_interface(const Case& of) {
  for (const Record* record : of.all({"nccl_bootstrap", "nccl_socket_using"})) {
    const std::string_view list = record->get("list");
    for (const auto name : {"docker", "veth", "virbr", "fe80", "lo:", "169.254."}) {
      if (list.find(name) != std::string_view::npos) return true;
    }
  }
  return false;
}

Records sidecars(const Case& of, Draft& draft) {
  for (const PodFact& pod : of.facts().pods) {
    if (!pod.has_sidecar) continue;
    draft.pod(pod.name).show({pod.where.file, pod.where.line, "the pod has a mesh sidecar"});
  }
  return of.all("istio");
}

bool has_sidecar(const Case& of) {
  if (of.has("istio")) return true;
  for (const PodFact& pod : of.facts().pods) {
    if (pod.has_sidecar) return true;
  }
  return false;
}

void finish(const Case& of, Draft& draft, Hypotheses& out) {
  draft.show(sidecars(of, draft));
  if (has_sidecar(of)) {
    draft.fix("take the job out of the mesh: sidecar.istio.io/inject: \"false\" on the pods");
  }
  draft.fix(
      "from one pod to the other: nc -vz ADDRESS PORT; NetworkPolicies, security groups, "
      "firewalls between the nodes");
  draft.fix("training needs all TCP ports between the pods of a job, and DNS (53) out of them");
  draft.prevent("shanty check: connections between nodes");
  out.push_back(draft.done());
}

// The master waits for clients that time out on their way to it.
void one_sided(const Case& of, Hypotheses& out) {
  const Records clients = of.all("client_timeout");
  if (clients.empty() || !somebody_hosts(of) || refused(of) || !of.unresolved().empty()) return;
  std::set<int> sides;
  Draft draft(of, "NET102", "net_blocked", 0.82, Nearness::kStructure);
  draft.show(of.all("clients_joined")).show(clients).blame(clients);
  draft.message(fmt::format(
      "{} cannot reach {}:{}: the name resolves and the store listens, but connections time out",
      of.place(*clients.front()), clients.front()->get("host"), clients.front()->get("port")));
  draft.rule_out("DNS: the address was found");
  draft.rule_out("nobody hosting the store: it counts its clients");
  if (!of.has("nccl_env") && !of.has("nccl_bootstrap")) {
    draft.rule_out("NCCL: it prints nothing, so it was not reached");
  }
  finish(of, draft, out);
}

void by_errno(const Case& of, const Records& lines, Hypotheses& out) {
  if (bad_interface(of) || of.trained()) return;
  const bool aborted = std::all_of(lines.begin(), lines.end(),
                                   [](const Record* record) { return is_aborted(*record); });
  Draft draft(of, "NET102", "net_blocked", aborted ? 0.6 : 0.85, Nearness::kStructure);
  draft.show(lines).blame(lines);
  std::set<std::string> peers;
  for (const Record* record : lines) {
    for (const auto name : {"host", "peer"}) {
      if (!record->get(name).empty()) peers.insert(of.who_is(record->get(name)));
    }
  }
  if (!draft.blames_someone() && !peers.empty()) draft.node(*peers.begin());
  draft.message(fmt::format(
      "connections of {} {}: the network between them is blocked", of.place(*lines.front()),
      peers.empty() ? "time out"
                    : "to " + *peers.begin() + (aborted ? " are aborted" : " get no answer")));
  draft.rule_out("nobody listening: that would be refused");
  if (aborted) {
    draft.fix("or the address is of a network the peer is not on: NCCL_SOCKET_IFNAME names one");
  }
  draft.rule_out("DNS: an address was tried");
  finish(of, draft, out);
}

// Everything stops after the bootstrap, without an error, where a mesh takes the connections.
void swallowed(const Case& of, Hypotheses& out) {
  const Records bootstrap = of.all("nccl_bootstrap");
  const bool stuck_nccl = !bootstrap.empty() && !of.has("nccl_init") && !of.trained();
  const Records empty = of.all({"store_closed", "store_retry"});
  const bool stuck_store = of.has("connected") && !empty.empty();
  if (of.has("nccl_rings") || of.trained()) return;
  // Of one host, or of an excerpt, it only says that the log ends there.
  const bool quiet_nccl =
      stuck_nccl && of.several_nodes() && !of.has("nccl_connect") && !bad_interface(of);
  if (!has_sidecar(of) && !quiet_nccl && !(stuck_store && !of.has("rdzv_done"))) return;
  if (!stuck_nccl && !stuck_store && !of.has("client_timeout")) return;
  Draft draft(of, "NET102", "net_blocked",
              has_sidecar(of) ? 0.88
              : stuck_store   ? 0.62
                              : 0.5,
              Nearness::kStructure);
  draft.show(bootstrap).show(empty).show(of.all("client_timeout"));
  if (has_sidecar(of)) {
    draft.blame(of.all("istio"));
  } else {
    draft.blame(bootstrap);
  }
  draft.message(
      stuck_nccl ? "NCCL stops after its bootstrap address: connections to its random ports do "
                   "not come through"
                 : "the store is connected and answers nothing: something between takes the bytes");
  draft.rule_out("a wrong interface: the address is one of the pod's network");
  finish(of, draft, out);
}

// The store's connection opens and ends before it says a word, at a time when there are no ranks
// yet: whoever took it was not the store.
void answered_by_another(const Case& of, Hypotheses& out) {
  const Records lines = closed_before_start(of);
  if (lines.empty() || of.has("connected") || has_sidecar(of)) return;
  Draft draft(of, "NET102", "net_blocked", 0.62, Nearness::kStructure);
  draft.show(lines).blame(lines);
  std::string peer;
  for (const Record* record : lines) {
    for (const auto name : {"peer", "host"}) {
      if (peer.empty()) peer = record->get(name);
    }
  }
  draft.message(fmt::format(
      "connections to the store{} open and are closed at once, before the job starts: a mesh "
      "proxy, a firewall or another program takes them, or the host's own process left",
      peer.empty() ? "" : " at " + peer));
  draft.rule_out("a rank that died: there are none yet");
  draft.fix("the log of the host of the store: does it say that a client came?");
  finish(of, draft, out);
}

// mpirun, pdsh and DeepSpeed start the other nodes by ssh.
void no_ssh(const Case& of, Hypotheses& out) {
  const Records lines = of.all("ssh_failed");
  if (lines.empty()) return;
  Draft draft(of, "NET102", "net_blocked", 0.8);
  draft.show(lines);
  for (const Record* record : lines) draft.node(std::string(record->get("host")));
  draft.message(fmt::format("the launcher does not reach {} by ssh ({}): {}",
                            lines.front()->get("host"), lines.front()->get("port"),
                            lines.front()->get("error")));
  draft.rule_out("the program: it was not started there");
  draft.fix(
      "refused: is sshd running on that port there? timed out: a firewall, or the host is down");
  out.push_back(draft.done());
}

}  // namespace

void net_blocked_rule(const Case& of, Hypotheses& out) {
  no_ssh(of, out);
  const Records lines = timed_out(of);
  if (!lines.empty()) {
    by_errno(of, lines, out);
  } else {
    one_sided(of, out);
    swallowed(of, out);
    answered_by_another(of, out);
  }
}

}  // namespace shanty
