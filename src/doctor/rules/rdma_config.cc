#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

void device(const Case& of, Hypotheses& out) {
  const Records open = of.all({"nccl_open_device", "plugin_none"});
  if (open.empty()) return;
  Draft draft(of, "NCCL101", "rdma_config", 0.93);
  draft.show(open).show(of.all({"nccl_ib_none", "nccl_network"})).blame(open);
  for (const Record* record : open) draft.device(std::string(record->get("hca")));
  draft.message("the RDMA device of " + of.place(*open.front()) +
                " is there but cannot be opened in the container: NCCL falls back to sockets");
  draft.rule_out("no InfiniBand on the node: the device was listed");
  draft.fix(
      "give the pod the RDMA resource (rdma/..., vpc.amazonaws.com/efa) and IPC_LOCK; "
      "ls /dev/infiniband in it");
  draft.prevent("shanty check: RDMA in the pod");
  out.push_back(draft.done());
}

void queue_pair(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_modify_qp");
  if (lines.empty()) return;
  const std::string_view error = lines.front()->get("error");
  Draft draft(of, "NCCL102", "rdma_config", 0.92);
  draft.show(lines).show(of.all("nccl_env")).blame(lines);
  for (const Record* record : lines) draft.device(std::string(record->get("hca")));
  const std::string where = of.place(*lines.front());
  if (error.starts_with("No such device")) {
    draft.message("an RDMA device that " + where +
                  " lists belongs to another network namespace: it has no address there");
    draft.fix("NCCL_IB_HCA= the devices that the pod was given (show_gids in the pod)");
  } else {
    draft.message("RDMA connections of " + where + " fail (" + std::string(error) +
                  "): wrong GID index, or ports that do not reach each other");
    draft.fix("show_gids in the pod: NCCL_IB_GID_INDEX= the RoCE v2 entry with the IPv4 address");
    draft.fix("are the ports in one subnet, cabled as planned? ibv_rc_pingpong between the nodes");
  }
  draft.rule_out("a broken card: this fails on every run with this configuration");
  out.push_back(draft.done());
}

void registration(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_reg_mr");
  const Records efa = of.all("efa_reg_mr");
  Records ofi;
  for (const Record* record : of.all("nccl_ofi")) {
    if (record->text.find("register memory") != std::string::npos) ofi.push_back(record);
  }
  if (!lines.empty()) {
    const Record* buffers = nullptr;
    for (const Record* record : of.all("nccl_env")) {
      if (record->get("name") == "NCCL_BUFFSIZE") buffers = record;
    }
    Draft draft(of, "NCCL103", "rdma_config", 0.93);
    draft.show(lines).show(of.first("memlock")).show(buffers).blame(lines);
    draft.message("memory of " + of.place(*lines.front()) +
                  " cannot be registered for RDMA: the limit of locked memory" +
                  (buffers ? ", or NCCL_BUFFSIZE that is too large" : ""));
    draft.rule_out("RAM or GPU memory: registering fails at the limit of locked memory");
    draft.fix(
        "ulimit -l in the process must be unlimited: IPC_LOCK in the pod, LimitMEMLOCK of "
        "containerd, limits.conf on bare metal");
    out.push_back(draft.done());
  }
  if (!ofi.empty() || !efa.empty()) {
    Draft draft(of, "NCCL103", "rdma_config", 0.9);
    draft.show(ofi).show(efa).blame(ofi.empty() ? efa : ofi);
    draft.message(
        "libfabric cannot register memory: its version is too old for this NCCL, or the "
        "card's limit is reached");
    draft.rule_out("locked memory: the return code is another one");
    draft.fix(
        "a newer EFA installer and aws-ofi-nccl in the image; FI_EFA_SET_CUDA_SYNC_MEMOPS=0 "
        "until then");
    out.push_back(draft.done());
  }
}

// The plugin for libfabric warns of a call that failed, of no matter which.
void libfabric(const Case& of, Hypotheses& out) {
  Records lines = of.all("ofi_failed");
  for (const Record* record : of.all("nccl_ofi")) {
    if (record->text.find("register memory") == std::string::npos) lines.push_back(record);
  }
  const Records missing = of.all("ofi_no_provider");
  // A plugin that finds no card gives way to sockets, and the job goes on.
  if (lines.empty() || of.trained()) return;
  Draft draft(of, missing.empty() ? "NCCL102" : "NCCL101", "rdma_config",
              missing.empty() ? 0.65 : 0.8, Nearness::kStructure);
  draft.show(lines).show(missing).show(of.first("nccl_ofi_provider")).blame(lines);
  for (const Record* record : of.all("ofi_failed")) {
    draft.node(std::string(record->get("host"))).node(std::string(record->get("peer")));
  }
  draft.message(missing.empty()
                    ? "the network library (libfabric) of " + of.place(*lines.front()) +
                          " fails: " + said(*lines.front(), 120)
                    : fmt::format("libfabric finds no device of the provider {} on {}: the pod "
                                  "has none, or the library was built without it",
                                  missing.front()->get("provider"), of.place(*lines.front())));
  draft.rule_out("NCCL itself: the plugin reports what libfabric answered");
  draft.fix(
      "fi_info -p efa in the pod; does it ask for vpc.amazonaws.com/efa, one for each card of the "
      "node?");
  draft.fix(
      "the security group must let the nodes talk to each other both ways (egress too); the same "
      "versions of the EFA installer and aws-ofi-nccl on all nodes");
  out.push_back(draft.done());
}

// Some ranks have RDMA, others went back to sockets; or devices are listed and not used.
void fallback(const Case& of, Hypotheses& out) {
  if (of.has("nccl_open_device")) return;
  Records sockets;
  Records others;
  for (const Record* record : of.all("nccl_network")) {
    (record->get("net") == "Socket" ? sockets : others).push_back(record);
  }
  const Records none = of.all("nccl_ib_none");
  bool wanted = !others.empty();
  for (const Record* record : of.all("nccl_env")) {
    wanted |= record->get("name").starts_with("NCCL_IB_") || record->get("name").starts_with("FI_");
  }
  for (const LinkFact& link : of.facts().links) wanted |= link.to.starts_with("mlx5");
  if (sockets.empty() || !wanted) return;
  Draft draft(of, "NCCL101", "rdma_config", others.empty() ? 0.7 : 0.88, Nearness::kStructure);
  draft.show(sockets).show(none).show(others).blame(sockets);
  draft.message(of.place(*sockets.front()) +
                " fell back from RDMA to TCP sockets: the job runs at a tenth of the speed");
  if (!others.empty()) draft.rule_out("sockets by design: other ranks use RDMA");
  draft.fix("ls /dev/infiniband and ibv_devinfo in that pod; does it ask for the RDMA resource?");
  draft.prevent("shanty check: RDMA in the pod");
  out.push_back(draft.done());
}

void lost_nic(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_nic_lost");
  std::map<size_t, Records> by_count;  // HCAs listed
  for (const Record* record : of.all("nccl_ib_using")) {
    size_t count = 0;
    for (const char c : record->get("hcas")) count += c == '[' ? 1 : 0;
    by_count[count].push_back(record);
  }
  if (lines.empty() && !of.has("nccl_nic_mixed")) return;
  Draft draft(of, "NCCL101", "rdma_config", 0.85);
  draft.show(lines).show(of.all("nccl_nic_mixed"));
  for (const Record* record : lines) {
    if (record->number("n") < record->number("max"))
      draft.rank(static_cast<int>(record->number("a")));
  }
  if (lines.empty() && by_count.size() > 1) draft.blame(by_count.begin()->second);
  draft.message("a node has fewer network devices than the others");
  draft.fix("ibv_devinfo on that node: which card is missing or down?");
  out.push_back(draft.done());
}

// Channels by RDMA without /GDRDMA.
void gpu_direct(const Case& of, Hypotheses& out) {
  Records with;
  Records without;
  for (const Record* record : of.all("nccl_channel")) {
    const std::string_view via = record->get("via");
    if (!via.starts_with("NET/") || via.starts_with("NET/Socket")) continue;
    (record->text.find("GDRDMA") != std::string::npos ? with : without).push_back(record);
  }
  const Records off = of.all("nccl_gdr_off");
  if (without.empty()) return;
  std::set<std::string> good;
  for (const Record* record : with) good.insert(record->node);
  Records bad;
  for (const Record* record : without) {
    if (!good.contains(record->node)) bad.push_back(record);
  }
  const bool asymmetric = !with.empty();
  if (asymmetric && bad.empty()) bad = without;
  if (!asymmetric && off.empty()) {
    // Where no node has it this may be so by design.
    Draft draft(of, "NCCL104", "rdma_config", 0.5, Nearness::kStructure);
    draft.severity(Severity::kNote).show(without).blame(without);
    draft.message("no channel uses GPUDirect RDMA");
    draft.fix("lsmod | grep nvidia_peermem on the nodes, or a kernel and driver with DMA-BUF");
    out.push_back(draft.done());
    return;
  }
  Draft draft(of, "NCCL104", "rdma_config", asymmetric ? 0.85 : 0.88, Nearness::kStructure);
  draft.show(asymmetric ? bad : without).show(off).show(with).blame(asymmetric ? bad : without);
  if (!off.empty() && !asymmetric) draft.blame(off);
  draft.message(asymmetric
                    ? "GPUDirect RDMA is not active on " + of.place(*bad.front()) +
                          ", while others have it"
                    : "GPUDirect RDMA is disabled: data goes through host memory, a third of "
                      "the bandwidth");
  draft.severity(Severity::kWarning);
  draft.rule_out("no RDMA: the channels use the card, only not directly from the GPU");
  draft.fix(
      "modprobe nvidia-peermem on that node (or DMA-BUF), then look for /GDRDMA in the channel "
      "lines");
  out.push_back(draft.done());
}

// Completion errors before anything worked, or requests that are refused: this was set up wrongly.
void completion_at_start(const Case& of, Hypotheses& out) {
  const Records errors = of.all("nccl_wc_error");
  Records events;
  bool port_fault = false;
  for (const Record* record : of.all("nccl_port_event")) {
    port_fault |= is_port_fault(*record);
    if (!is_port_fault(*record) && record->get("what").find("rereg") == std::string_view::npos) {
      events.push_back(record);
    }
  }
  Records refused;
  for (const Record* record : errors) {
    if (is_refused_request(*record)) refused.push_back(record);
  }
  const bool request = !refused.empty() || !events.empty();
  if ((errors.empty() && events.empty()) || (port_fault && !request)) return;
  const bool saw_start = of.has("nccl_bootstrap") || of.has("nccl_init") || of.has("nccl_network");
  if (!request && (of.trained() || of.has("nccl_rings") || !saw_start)) return;
  Draft draft(of, "NCCL102", "rdma_config", request ? 0.85 : 0.7, Nearness::kStructure);
  draft.show(events).show(request ? refused : errors).show(errors);
  // The node whose own card complains, before those that only name a peer.
  draft.blame(!events.empty() ? events : request ? refused : errors);
  for (const Record* record : events) draft.device(std::string(record->get("hca")));
  for (const Record* record : errors) {
    const std::string peer = of.who_is(record->get("peer"));
    if (of.nodes().contains(peer)) draft.node(peer);
  }
  draft.message(
      request ? "an RDMA card refuses a request" +
                    (events.empty() ? "" : fmt::format(" ({})", events.front()->get("what"))) +
                    ": memory that is not registered with these rights: GPUDirect, ACS, or a "
                    "library that does not fit the card"
              : "RDMA between the nodes does not work from the first message on: different MTU, "
                "GID, VLAN or PFC at the two ends");
  draft.rule_out("a link that went down: no port reports an error");
  draft.rule_out("status 5 (flushed): always a consequence of another error");
  if (request) {
    draft.fix(
        "to decide: NCCL_NET_GDR_LEVEL=LOC (no GPUDirect), then NCCL_IB_PCI_RELAXED_ORDERING=0; "
        "lspci -vvv | grep ACSCtl on that node; the network plugin that fits the card");
  } else {
    draft.fix("ibv_devinfo on all nodes: active_mtu, port state, GID; they must agree");
  }
  draft.fix("ib_write_bw between the two nodes");
  out.push_back(draft.done());
}

// The first collective between nodes never ends, over RDMA, without an error.
void first_collective(const Case& of, Hypotheses& out) {
  const auto views = view_timeouts(of);
  if (views.empty() || !views.front().first_collective || !views.front().all_there) return;
  if (!of.several_nodes() || of.has("nccl_wc_error") || of.has("nccl_modify_qp")) return;
  Records networks;
  for (const Record* record : of.all("nccl_network")) {
    if (record->get("net") != "Socket") networks.push_back(record);
  }
  if (networks.empty()) return;
  std::set<std::string> connected;
  for (const Record* record : of.all("nccl_rings")) connected.insert(record->node);
  Draft draft(of, "NCCL102", "rdma_config", 0.65, Nearness::kStructure);
  draft.show(views.front().lines).show(networks);
  for (const Record* record : networks) {
    if (!connected.contains(record->node)) draft.node(record->node);
  }
  if (!draft.blames_someone()) draft.blame(networks);
  draft.message(
      "the first collective between the nodes never ends over RDMA: they do not reach each "
      "other there (GID, MTU, VLAN, subnet)");
  draft.rule_out("desync: all ranks wait in the same first collective");
  draft.fix(
      "ib_write_bw between the two nodes; show_gids; NCCL_IB_DISABLE=1 decides whether it is "
      "RDMA");
  out.push_back(draft.done());
}

// A hang in the pods with a GID index that is the host's.
void gid(const Case& of, Hypotheses& out) {
  if (of.has("nccl_modify_qp") || of.has("nccl_rings") || of.trained()) return;
  Records lines;
  for (const Record* record : of.all("nccl_env")) {
    if (record->get("name") == "NCCL_IB_GID_INDEX" ||
        record->get("name") == "NCCL_IB_ROCE_VERSION_NUM") {
      lines.push_back(record);
    }
  }
  bool by_ib = of.has("segfault") || of.has("sigsegv");
  for (const Record* record : of.all("nccl_network")) by_ib |= record->get("net").starts_with("IB");
  if (lines.empty() || !by_ib || !(of.failed() || of.has("nccl_init"))) return;
  Draft draft(of, "NCCL102", "rdma_config", 0.6, Nearness::kStructure);
  draft.show(lines).show(of.all("segfault")).blame(lines);
  draft.message("NCCL stops with a GID chosen by hand (" + std::string(lines.front()->get("name")) +
                "): inside a pod the table of GIDs has other indices than on the host");
  draft.fix(
      "show_gids inside the pod; NCCL_IB_GID_INDEX= its RoCE v2 entry with the pod's address");
  out.push_back(draft.done());
}

}  // namespace

void rdma_config_rule(const Case& of, Hypotheses& out) {
  device(of, out);
  queue_pair(of, out);
  registration(of, out);
  libfabric(of, out);
  fallback(of, out);
  lost_nic(of, out);
  gpu_direct(of, out);
  completion_at_start(of, out);
  first_collective(of, out);
  gid(of, out);
}

}  // namespace shanty
