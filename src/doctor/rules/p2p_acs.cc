#include <algorithm>
#include <cstdint>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr int64_t kBelievableParameters = 100'000;

Records p2p_channels(const Case& of) {
  Records out;
  for (const Record* record : of.all("nccl_channel")) {
    if (record->get("via").starts_with("P2P/")) out.push_back(record);
  }
  return out;
}

// Channels over the network, or of no rank 0: it sits on another node.
bool uses_network(const Case& of) {
  int64_t lowest = INT64_MAX;
  for (const Record* record : of.all("nccl_channel")) {
    if (record->get("via").starts_with("NET/")) return true;
    for (const auto end : {"a", "b"}) lowest = std::min(lowest, record->number(end));
  }
  return lowest > 0 && lowest != INT64_MAX;
}

// DDP's check of the parameter counts got nothing, or garbage: its all-gather never ended.
const Record* unwritten_counts(const Case& of) {
  const Record* line = of.first("ddp_params");
  if (!line) return nullptr;
  const int64_t a = line->number("na");
  const int64_t b = line->number("nb");
  const bool garbage = a == 0 || b == 0 || a > kBelievableParameters || b > kBelievableParameters;
  return garbage && (of.has("timeout") || a > kBelievableParameters || b > kBelievableParameters)
             ? line
             : nullptr;
}

// The watchdog waited in vain; the end of another process is no hang.
bool timed_out(const TimeoutView& view) {
  for (const Record* record : view.lines) {
    if (record->event == "timeout") return true;
  }
  return false;
}

// lspci alone: what makes it likely, not what happened.
void access_control(const Case& of, const Records& lines, Hypotheses& out) {
  Draft draft(of, "GPU104", "p2p_acs", 0.6, Nearness::kStructure);
  draft.severity(Severity::kWarning).show(lines).blame(lines);
  draft.message(
      "PCIe access control (ACS) is on: transfers between GPUs go by the root complex, and "
      "peer-to-peer may hang");
  draft.fix("decide with NCCL_P2P_DISABLE=1: if a job that hangs then runs, it is P2P");
  draft.fix("off in the BIOS, or setpci -s BRIDGE ECAP_ACS+6.w=0000; virtual machines need it on");
  out.push_back(draft.done());
}

// RCCL tells at its start that the kernel was not told to leave the cards' addresses alone.
void iommu(const Case& of, const Records& lines, Hypotheses& out) {
  Draft draft(of, "GPU104", "p2p_acs", 0.55, Nearness::kStructure);
  draft.severity(Severity::kWarning).show(lines).blame(lines);
  draft.message("the kernel was started without " + std::string(lines.front()->get("what")) +
                ": transfers between GPUs of one node may hang");
  draft.fix("iommu=pt on the kernel's command line, then boot; NCCL_P2P_DISABLE=1 decides");
  out.push_back(draft.done());
}

// The driver refuses to map one GPU's memory for another.
void refused(const Case& of, Hypotheses& out) {
  Records lines = of.all("nccl_p2p_failed");
  std::erase_if(lines, [](const Record* record) {
    return record->text.find("out of memory") != std::string::npos ||
           record->text.find("ECC") != std::string::npos;
  });
  if (lines.empty()) return;
  Draft draft(of, "GPU104", "p2p_acs", 0.75, Nearness::kStructure);
  draft.show(lines).blame(lines);
  draft.message("GPUs of " + of.place(*lines.front()) +
                " cannot map each other's memory: " + said(*lines.front(), 140));
  draft.rule_out("network: this is between GPUs of one node");
  draft.fix("decide with NCCL_P2P_DISABLE=1: if the job then runs, it is P2P");
  draft.fix(
      "do all processes see the cards (CUDA_VISIBLE_DEVICES, one IPC namespace: --ipc=host)? "
      "nvidia-smi topo -p2p r; a driver that allows P2P for this card");
  out.push_back(draft.done());
}

bool switched_off(const Case& of) {
  for (const Record* record : of.all("nccl_env")) {
    if (record->get("name") == "NCCL_P2P_DISABLE" && record->get("value") == "1") return true;
  }
  return false;
}

}  // namespace

void p2p_acs_rule(const Case& of, Hypotheses& out) {
  const Record* counts = unwritten_counts(of);
  const Records channels = p2p_channels(of);
  const auto views = view_timeouts(of);
  const Records acs = of.all("acs_on");
  const bool first_hangs =
      !views.empty() && views.front().first_collective && timed_out(views.front()) &&
      (views.front().all_there || (views.front().ranks.size() == 1 && !channels.empty()));
  const bool wc = of.has("nccl_wc_error") || of.has("nccl_port_event") || of.has("nccl_modify_qp");
  const bool one_node = !of.several_nodes() && !uses_network(of);
  // Without a watchdog's line: the channels were made, and then nothing more.
  const bool silent_hang = views.empty() && !channels.empty() && one_node && !of.trained() &&
                           !of.failed() && !of.has("stall_warning");
  if (wc || switched_off(of)) return;
  refused(of, out);
  if (!counts && !(first_hangs && one_node) && !silent_hang) {
    const bool nothing_yet = !of.failed() && !of.trained() && !of.has("nccl_rings");
    const Records missing = of.all("iommu");
    if (!acs.empty() && !of.failed() && !of.trained()) access_control(of, acs, out);
    if (!missing.empty() && nothing_yet) iommu(of, missing, out);
    return;
  }
  if (of.has("xid") || of.has("gpu_ecc")) return;
  const double confidence = counts || !acs.empty() ? 0.85
                            : channels.empty()     ? 0.65
                            : first_hangs          ? 0.85
                                                   : 0.5;
  Draft draft(of, "GPU104", "p2p_acs", confidence, Nearness::kStructure);
  draft.show(counts).show(views.empty() ? Records{} : views.front().lines).show(channels).show(acs);
  std::set<std::string> nodes;
  for (const Record* record : channels) nodes.insert(record->node);
  for (const std::string& node : nodes) draft.node(node);
  if (nodes.empty() && !views.empty()) {
    for (const Record* record : views.front().lines) draft.node(record->node).pod(record->pod);
  }
  if (nodes.empty() && counts) draft.blame(counts);
  if (nodes.empty() && of.nodes().size() == 1) draft.node(*of.nodes().begin());
  draft.message(
      "the first collective between GPUs of one node never ends: peer-to-peer access is "
      "broken (ACS or IOMMU, driver, or cards without it)");
  if (counts)
    draft.rule_out("different models: the count was never written, the timeout came first");
  draft.rule_out("desync: all ranks wait in the same first collective");
  draft.rule_out("network: the ranks sit in one machine");
  draft.fix("decide with NCCL_P2P_DISABLE=1: if the job then runs, it is P2P");
  draft.fix(
      "lspci -vvv | grep ACSCtl (SrcValid+ is bad), iommu=pt or off, BIOS; a driver without "
      "the fault; on GeForce leave P2P off");
  out.push_back(draft.done());
}

}  // namespace shanty
