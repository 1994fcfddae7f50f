#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr size_t kPersistent = 3;

}  // namespace

void dns_rule(const Case& of, Hypotheses& out) {
  const Records lines = of.unresolved();
  std::set<std::string> hosts;
  for (const Record* record : lines) {
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
  const bool is_address = !hosts.empty() && hosts.begin()->find(':') != std::string::npos;
  if (is_address) {
    draft.fix("give the address without its brackets, or a host name: this is taken for a name");
  } else {
    draft.rule_out("IPv6 that is not there: the IPv4 address is missing too");
  }
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
