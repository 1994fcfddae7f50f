#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr size_t kPersistent = 3;

// Lines that say that a name has no address: for IPv4, or for both families again and again. IPv6
// alone is noise.
Records unresolved(const Case& of, std::set<std::string>& hosts) {
  struct Seen {
    Records v4;
    Records v6;
  };
  std::map<std::string, Seen> by_host;
  for (const Record* record : of.all("gai")) {
    Seen& seen = by_host[std::string(record->get("host"))];
    (record->get("family") == "IPv4" ? seen.v4 : seen.v6).push_back(record);
  }
  Records out;
  for (const auto& [host, seen] : by_host) {
    if (seen.v4.empty()) continue;
    hosts.insert(host);
    out.insert(out.end(), seen.v4.begin(), seen.v4.end());
  }
  return out;
}

}  // namespace

void dns_rule(const Case& of, Hypotheses& out) {
  std::set<std::string> hosts;
  Records lines = unresolved(of, hosts);
  for (const Record* record : of.all("name_unknown")) {
    lines.push_back(record);
    if (!record->get("host").empty()) hosts.insert(std::string(record->get("host")));
  }
  if (lines.empty()) return;
  // A resolver that nobody may talk to is a blocked network.
  if (of.has("permission")) return;
  // A name that was found in the end is a pod that came up later.
  const bool found_later = of.trained() || of.has("connected") || of.has("hosts_store");
  if (found_later && lines.size() < kPersistent && !of.has("client_timeout") &&
      !of.has("rdzv_connection")) {
    return;
  }
  Draft draft(of, "NET103", "dns", found_later ? 0.75 : 0.93);
  draft.show(lines).show(of.all({"rdzv_connection", "rdzv_timeout"})).blame(lines);
  const std::string host = hosts.empty() ? "the master" : "\"" + *hosts.begin() + "\"";
  draft.message(fmt::format("{} cannot resolve the name {}", of.place(*lines.front()), host));
  draft.rule_out("a blocked network: the name fails before any connection is tried");
  draft.rule_out("IPv6 that is not there: the IPv4 address is missing too");
  for (const PodFact& pod : of.facts().pods) {
    if (pod.host_network && pod.dns_policy != "ClusterFirstWithHostNet") {
      draft.pod(pod.name).show(
          {pod.where.file, pod.where.line, "hostNetwork with dnsPolicy " + pod.dns_policy});
      draft.prevent("shanty lint NET001");
    }
  }
  draft.fix(fmt::format("from that pod: getent hosts {}; kubectl get svc,endpoints",
                        hosts.empty() ? "NAME" : *hosts.begin()));
  draft.fix(
      "a headless Service with publishNotReadyAddresses; an init container that waits for the "
      "name");
  draft.fix("with hostNetwork: dnsPolicy: ClusterFirstWithHostNet");
  out.push_back(draft.done());
}

}  // namespace shanty
