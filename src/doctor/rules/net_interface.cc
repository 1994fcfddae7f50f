#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

// Why an interface is no way to another host, or nothing.
std::string_view why_bad(std::string_view ifc, std::string_view list, bool several_nodes) {
  if (list.find("fe80:") != list.npos) return "it has a link-local address";
  if (list.find("veth") != list.npos) return "a veth leads to a container of this host only";
  if (list.find("docker") != list.npos || list.find("virbr") != list.npos) {
    return "it is a bridge of this host only";
  }
  if (list.find(":169.254.") != list.npos) return "it has a link-local address";
  if (list.find(":172.17.") != list.npos && several_nodes) return "172.17.x is docker's bridge";
  if ((ifc == "lo" || list.find("127.0.") != list.npos) && several_nodes) {
    return "it is the loopback";
  }
  if (ifc.starts_with("ib")) return "bootstrap goes by TCP, which this IPoIB link may not carry";
  return "";
}

bool connection_failed(const Case& of) {
  return of.has("nccl_connect") || of.has("nccl_error") || of.has("timeout") ||
         of.has("nccl_peer_closed") || of.has("gloo_mesh") || of.has("client_timeout") ||
         of.has("monitored_barrier") || of.has("gloo_timeout");
}

void bad_address(const Case& of, Hypotheses& out) {
  if (!connection_failed(of) || of.trained()) return;
  Records bad;
  std::string_view why;
  for (const Record* record : of.all({"nccl_bootstrap", "nccl_socket_using"})) {
    const std::string_view reason =
        why_bad(record->get("ifc"), record->get("list"), of.several_nodes());
    if (reason.empty()) continue;
    bad.push_back(record);
    why = reason;
  }
  for (const Record* record : of.all("nccl_connect")) {
    const std::string_view peer = record->get("peer");
    if (peer.starts_with("fe80") || peer.starts_with("127.") || peer.starts_with("169.254.")) {
      bad.push_back(record);
      if (why.empty()) why = "the peer's address is reachable on its own host only";
    }
  }
  if (bad.empty()) return;
  Draft draft(of, "NET101", "net_interface", 0.88, Nearness::kStructure);
  draft.show(bad).show(of.all({"nccl_connect", "nccl_error"})).blame(bad);
  draft.device(std::string(bad.front()->get("ifc")));
  draft.message(fmt::format(
      "NCCL uses interface {} on {}: {}",
      bad.front()->get("ifc").empty() ? bad.front()->get("peer") : bad.front()->get("ifc"),
      of.place(*bad.front()), why));
  draft.rule_out("a blocked network: the advertised address itself is wrong");
  draft.fix(
      "NCCL_SOCKET_IFNAME=eth0 (the pod's or the node's network), or ^docker,lo,veth to leave "
      "those out; GLOO_SOCKET_IFNAME likewise");
  draft.prevent("shanty run chooses the interface that reaches the others");
  out.push_back(draft.done());
}

void none(const Case& of, Hypotheses& out) {
  Records lines = of.all({"nccl_no_interface", "nccl_no_address"});
  if (lines.empty()) return;
  Draft draft(of, "NET101", "net_interface", 0.95);
  // Who names an interface and then does not use it.
  std::set<std::pair<std::string, int64_t>> using_it;
  for (const Record* record : of.all("nccl_bootstrap"))
    using_it.insert({record->node, record->pid});
  Records without;
  for (const Record* record : of.all("nccl_ifname")) {
    if (!using_it.contains({record->node, record->pid})) without.push_back(record);
  }
  draft.show(lines).show(without).show(of.all("nccl_ifname"));
  draft.blame(without.empty() ? lines : without);
  const Record* named = without.empty() ? of.first("nccl_ifname") : without.front();
  draft.message(fmt::format("NCCL finds no interface {}on {}",
                            named ? fmt::format("named {} ", named->get("value")) : "",
                            of.place(without.empty() ? *lines.front() : *without.front())));
  if (named) draft.device(std::string(named->get("value")));
  draft.rule_out("memory corruption: the nonsense address family is an address that was never set");
  draft.fix(
      "ip -br a on that node; NCCL_SOCKET_IFNAME by a prefix that all nodes share, or per node "
      "in /etc/nccl.conf");
  out.push_back(draft.done());
}

void none_for_gloo(const Case& of, Hypotheses& out) {
  const Records lines = of.all("gloo_no_interface");
  if (lines.empty()) return;
  const std::string_view named = lines.front()->get("value");
  Draft draft(of, "NET101", "net_interface", 0.95);
  draft.show(lines).blame(lines).device(std::string(named));
  draft.message(
      fmt::format("gloo finds no interface named {} on {}", named, of.place(*lines.front())));
  draft.rule_out("a blocked network: nothing was sent yet");
  draft.fix(
      "GLOO_SOCKET_IFNAME takes whole names, no ^ and no prefix as NCCL's does; ip -br a on that "
      "node lists them");
  out.push_back(draft.done());
}

bool is_local(std::string_view name) { return name.starts_with("127.") || name == "localhost"; }

// On one host loopback addresses are as good as any. That it is one must be told by something: few
// lines of one node are no proof.
bool is_one_host(const Case& of) {
  if (of.several_nodes()) return false;
  const Record* launched = of.first("launch_max");
  if (launched) return launched->number("value") == 1;
  for (const Record* record : of.all("nccl_nodes")) {
    if (record->number("nodes") == 1) return true;
  }
  for (const Record* record : of.all("env_line")) {
    if (is_local(record->get("addr"))) return true;
  }
  for (const Record* record : of.all({"connected", "store_closed", "client_timeout"})) {
    if (is_local(record->get("host")) || is_local(record->get("peer"))) return true;
  }
  // One agent's output, in which all ranks speak.
  return of.book().files.size() == 1 && of.world_size() > 1 &&
         static_cast<int>(of.ranks().size()) >= of.world_size();
}

// Gloo listens where the host's own name leads.
void gloo_loopback(const Case& of, Hypotheses& out) {
  if (is_one_host(of)) return;
  Records lines;
  for (const Record* record : of.all({"gloo_mesh", "gloo_connect"})) {
    if (record->get("peer").starts_with("127.") || record->get("local_ip").starts_with("127.")) {
      lines.push_back(record);
    }
  }
  if (lines.empty()) return;
  Draft draft(of, "NET101", "net_interface", of.several_nodes() ? 0.92 : 0.8);
  draft.show(lines).blame(lines);
  for (const Record* record : lines) draft.rank(static_cast<int>(record->number("a")));
  draft.message("gloo of " + of.place(*lines.front()) +
                " uses a loopback address: the host's own name resolves to 127.x");
  draft.rule_out("a blocked network: no other host can be reached at 127.x");
  draft.fix(
      "GLOO_SOCKET_IFNAME=eth0, or mend /etc/hosts so that the hostname has its real address");
  out.push_back(draft.done());
}

// Nodes that take each other for the same host, or sit in networks that do not meet.
void same_host(const Case& of, Hypotheses& out) {
  Records lines;
  for (const Record* record : of.all("nccl_nodes")) {
    if (record->number("nodes") == 1 && of.nodes().size() > 1) lines.push_back(record);
  }
  if (lines.empty() || !connection_failed(of)) return;
  std::set<std::string> hosts;
  for (const Record* record : lines) hosts.insert(record->node);
  if (hosts.size() < 2) return;
  Draft draft(of, "NET101", "net_interface", 0.85, Nearness::kStructure);
  draft.show(lines).blame(lines);
  draft.message("NCCL takes several nodes for one host: they have the same host name or host id");
  draft.rule_out("P2P of the cards: the ranks sit in different machines");
  draft.fix(
      "a distinct NCCL_HOSTID per node, or distinct hostnames and /proc/sys/kernel/random/boot_id");
  out.push_back(draft.done());
}

// Nodes that advertise addresses of different networks.
void subnets(const Case& of, Hypotheses& out) {
  if (!connection_failed(of) || of.trained() || of.has("nccl_rings")) return;
  std::map<std::string, Records> networks;  // by the first two numbers of the address
  for (const Record* record : of.all("nccl_bootstrap")) {
    const std::string_view ip = record->get("ip");
    const size_t second = ip.find('.', ip.find('.') + 1);
    if (second != ip.npos) networks[std::string(ip.substr(0, second))].push_back(record);
  }
  if (networks.size() < 2) return;
  Draft draft(of, "NET101", "net_interface", 0.72, Nearness::kStructure);
  const Records* fewest = &networks.begin()->second;
  for (const auto& [network, records] : networks) {
    draft.show(records.front());
    if (records.size() < fewest->size()) fewest = &records;
  }
  draft.blame(*fewest).device(std::string(fewest->front()->get("ifc")));
  draft.message("the ranks advertise addresses of different networks: some use another interface");
  draft.rule_out("a blocked network: the addresses do not belong together");
  draft.fix("NCCL_SOCKET_IFNAME= the interface of the network that all nodes share");
  out.push_back(draft.done());
}

}  // namespace

void net_interface_rule(const Case& of, Hypotheses& out) {
  none(of, out);
  none_for_gloo(of, out);
  gloo_loopback(of, out);
  bad_address(of, out);
  same_host(of, out);
  subnets(of, out);
}

}  // namespace shanty
