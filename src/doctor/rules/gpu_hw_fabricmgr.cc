#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "doctor/rule.h"
#include "logs/pattern.h"

namespace shanty {
namespace {

// Xids that speak of the card, its memory, its links or its firmware; others belong to the program
// (13, 31, 32) or follow from one before (43, 45).
constexpr std::array<int64_t, 31> kHardwareXids = {
    48,  54,  56,  57,  58,  61,  62,  63,  64,  68,  69,  74,  79,  92,  94, 95,
    110, 119, 120, 121, 140, 143, 144, 145, 146, 147, 148, 149, 150, 154, 155};

constexpr uint64_t kLinesOfOneReport = 4;  // of the driver, about one card
constexpr double kColdShare = 0.5;         // of the usual power

bool is_hardware(const Record& xid) {
  const int64_t number = xid.number("xid");
  return std::find(kHardwareXids.begin(), kHardwareXids.end(), number) != kHardwareXids.end();
}

std::string meaning(int64_t xid) {
  switch (xid) {
    case 48:
      return "double-bit memory error";
    case 63:
    case 64:
      return "memory row remapping";
    case 74:
      return "NVLink error";
    case 79:
      return "the card fell off the bus";
    case 92:
    case 94:
    case 95:
      return "uncorrectable or contained memory error";
    case 119:
    case 120:
      return "its firmware (GSP) does not answer";
    default:
      return xid >= 144 && xid <= 150 ? "NVLink error" : "hardware error";
  }
}

// The PCI address, or else the UUID, that a line holds, wherever it stands.
std::string bus_in(const Record& record) {
  if (!record.get("bus").empty()) return std::string(record.get("bus"));
  static const Pattern address(
      R"~((?i)\b(?P<bus>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?|GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b)~");
  Captures found;
  return address.find(record.text, found) ? std::string(capture(found, "bus")) : "";
}

// Busy and cold: a card that says 100 % while it draws far less than the others.
void idle_power(const Case& of, Hypotheses& out) {
  std::vector<double> draws;
  for (const GpuFact& gpu : of.facts().gpus) {
    if (gpu.power_w > 0) draws.push_back(gpu.power_w);
  }
  if (draws.size() < 3 || !of.has("timeout")) return;
  std::nth_element(draws.begin(), draws.begin() + static_cast<std::ptrdiff_t>(draws.size() / 2),
                   draws.end());
  const double usual = draws[draws.size() / 2];
  for (const GpuFact& gpu : of.facts().gpus) {
    if (gpu.utilisation < 95 || gpu.power_w <= 0 || gpu.power_w > usual * kColdShare) continue;
    Draft draft(of, "GPU101", "gpu_hw_fabricmgr", 0.7, Nearness::kStructure);
    draft.node(gpu.node).device(fmt::format("GPU {} {}", gpu.index, gpu.bus)).show(gpu.where);
    draft.message(fmt::format(
        "GPU {} of {} claims {} % use at {:.0f} W, where others draw {:.0f} W: it "
        "hangs",
        gpu.index, gpu.node.empty() ? "the node" : gpu.node, gpu.utilisation, gpu.power_w, usual));
    draft.fix("dmesg -T | grep -i xid on that node; reset the card");
    out.push_back(draft.done());
  }
}

}  // namespace

void gpu_hw_fabricmgr_rule(const Case& of, Hypotheses& out) {
  Records xids;
  for (const Record* record : of.all("xid")) {
    if (is_hardware(*record)) xids.push_back(record);
  }
  const Records errors =
      of.all({"gpu_ecc", "gpu_nvlink", "gpu_lost", "gpu_hw_error", "nccl_p2p_disabled"});
  const Records fabric = of.all({"fabric_manager", "nccl_nvls"});
  const Records switches = of.all("sxid");
  idle_power(of, out);
  if (!xids.empty() || !errors.empty()) {
    Draft draft(of, "GPU101", "gpu_hw_fabricmgr", 0.95);
    const Record& first = xids.empty() ? *errors.front() : *xids.front();
    draft.show(xids).show(errors).blame(xids.empty() ? errors : xids);
    for (const Record* record : xids) draft.device(std::string(record->get("bus")));
    for (const Record* record : errors) {
      draft.device(bus_in(*record));
      for (const Record* named : of.all("gpu_named")) {
        const bool just_before = named->file == record->file && named->line < record->line &&
                                 record->line - named->line <= kLinesOfOneReport;
        if (just_before) draft.show(named).device(std::string(named->get("bus")));
      }
    }
    const std::string where = first.node.empty() ? of.place(first) : first.node;
    if (xids.empty()) {
      draft.message("a GPU of " + where + " has a hardware error: " + said(first));
    } else {
      draft.message(fmt::format("GPU {} of {} reports Xid {}: {}", first.get("bus"), where,
                                first.number("xid"), meaning(first.number("xid"))));
    }
    draft.rule_out("the program: these errors come from the card, not from a kernel of yours");
    draft.rule_out("network: the timeouts of the others follow");
    draft.fix("drain the node and reset the card; replace it when it comes back");
    draft.fix("look: nvidia-smi -q -d ECC,ROW_REMAPPER, dmesg -T | grep -i xid, on that node");
    out.push_back(draft.done());
  }
  if (!fabric.empty()) {
    Draft draft(of, "GPU101", "gpu_hw_fabricmgr", 0.93);
    draft.show(fabric).blame(fabric);
    draft.message("the NVLink fabric of " + of.place(*fabric.front()) +
                  " is not set up: the fabric manager is missing, stopped or was restarted");
    draft.rule_out("wrong use of an API: 'invalid argument' here comes from the fabric's state");
    draft.fix("systemctl status nvidia-fabricmanager; same version as the driver; then reset GPUs");
    draft.fix("until then NCCL_NVLS_ENABLE=0 helps where only multicast fails");
    out.push_back(draft.done());
  }
  if (!switches.empty()) {
    const Record& first = *switches.front();
    Draft draft(of, "GPU101", "gpu_hw_fabricmgr", 0.94);
    draft.show(switches).blame(switches);
    for (const Record* record : switches) draft.device(std::string(record->get("bus")));
    draft.message(fmt::format("NVSwitch {} of {} reports a fatal SXid {}", first.get("bus"),
                              of.place(first), first.get("xid")));
    draft.rule_out("the program: the switch between the GPUs reports it");
    draft.fix("drain the node; nvidia-fabricmanager's log; reset all GPUs of the node together");
    out.push_back(draft.done());
  }
  for (const GpuFact& gpu : of.facts().gpus) {
    if (gpu.uncorrectable_errors <= 0) continue;
    Draft draft(of, "GPU101", "gpu_hw_fabricmgr", 0.85);
    draft.node(gpu.node).device(fmt::format("GPU {} {}", gpu.index, gpu.bus)).show(gpu.where);
    draft.message(fmt::format("GPU {} of {} has {} uncorrectable memory errors", gpu.index,
                              gpu.node.empty() ? "the node" : gpu.node, gpu.uncorrectable_errors));
    draft.fix("drain the node and reset the card; replace it when it comes back");
    out.push_back(draft.done());
  }
}

}  // namespace shanty
