#include <algorithm>
#include <iterator>

#include "doctor/rule.h"

namespace shanty {
namespace {

// Answers of CUDA that other rules know better.
constexpr std::string_view kOfOtherRules[] = {"out of memory",
                                              "uncorrectable",
                                              "invalid device ordinal",
                                              "busy or unavailable",
                                              "no kernel",
                                              "driver",
                                              "initializ",
                                              "peer access",
                                              "NVLink",
                                              "CUDA-capable",
                                              "toolchain",
                                              "compatib",
                                              "ECC",
                                              "system not yet",
                                              "unknown error",
                                              "access a device"};

// A call of CUDA or of its libraries failed with another word than those that have a name here.
void other_error(const Case& of, Hypotheses& out) {
  Records lines = of.all("cuda_error");
  std::erase_if(lines, [](const Record* record) {
    return std::any_of(std::begin(kOfOtherRules), std::end(kOfOtherRules),
                       [&](std::string_view word) {
                         return record->get("what").find(word) != std::string_view::npos;
                       });
  });
  if (lines.empty()) return;
  const Record& first = *lines.front();
  Draft draft(of, "GPU105", "app_cuda_fault", 0.6);
  draft.show(lines).blame(&first);
  draft.message("a call of CUDA failed in " + of.place(first) + ": " +
                std::string(first.get("what")));
  draft.rule_out("network and NCCL: their errors come after the context was poisoned");
  draft.fix("run that rank again with CUDA_LAUNCH_BLOCKING=1 to see the line that launched it");
  draft.fix(
      "to decide: compute-sanitizer names a kernel at fault; nvidia-smi a full memory; dmesg -T | "
      "grep -i xid a fault of the card");
  out.push_back(draft.done());
}

// The driver itself does not know: it comes from its state or the card's more often than from code.
void unnamed_error(const Case& of, Hypotheses& out) {
  Records lines = of.all("cuda_error");
  std::erase_if(lines, [](const Record* record) {
    return record->get("what").find("unknown error") == std::string_view::npos;
  });
  if (lines.empty() || of.has("xid")) return;
  Draft draft(of, "GPU101", "gpu_hw_fabricmgr", 0.6);
  draft.show(lines).blame(lines);
  draft.message("the driver of " + of.place(*lines.front()) +
                " fails without saying why: the card, the driver after a suspend or an update, or "
                "a device that was taken from the container");
  draft.fix(
      "to decide: dmesg -T | grep -i -e xid -e nvrm; nvidia-smi on that node, outside and in");
  out.push_back(draft.done());
}

}  // namespace

void app_cuda_fault_rule(const Case& of, Hypotheses& out) {
  const Records asserts = of.all("cuda_assert");
  Records faults = of.all({"cuda_illegal", "cuda_launch"});
  for (const Record* xid : of.all("xid")) {
    const int64_t number = xid->number("xid");
    if (number == 13 || number == 31) faults.push_back(xid);
  }
  if (asserts.empty() && faults.empty()) {
    other_error(of, out);
    unnamed_error(of, out);
    return;
  }
  // The line of the kernel itself names the rank; what the API says later comes from many.
  Records first;
  for (const Record* record : asserts) {
    if (!record->get("file").empty()) first.push_back(record);
  }
  if (first.empty()) first = asserts.empty() ? faults : asserts;
  const Record* culprit = first.front();
  Draft draft(of, "GPU105", "app_cuda_fault", asserts.empty() ? 0.8 : 0.95);
  draft.show(first).show(asserts).show(faults);
  if (culprit->rank >= 0) {
    draft.blame(culprit);
  } else {
    draft.blame(first);
  }
  for (const Record* record : faults) draft.device(std::string(record->get("bus")));
  draft.message(asserts.empty() ? "a kernel of " + of.place(*culprit) + " made an illegal access"
                                : "a kernel of " + of.place(*culprit) +
                                      " failed its assertion: an index or a "
                                      "label is out of range");
  draft.rule_out("network and NCCL: their errors come after the context was poisoned");
  draft.rule_out("hardware: no ECC, NVLink or bus error in what is here");
  draft.fix("run that rank again with CUDA_LAUNCH_BLOCKING=1 to see the line that launched it");
  draft.fix("check labels, token ids and index tensors against the sizes they index");
  out.push_back(draft.done());
}

}  // namespace shanty
