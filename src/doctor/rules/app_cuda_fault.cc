#include "doctor/rule.h"

namespace shanty {

void app_cuda_fault_rule(const Case& of, Hypotheses& out) {
  const Records asserts = of.all("cuda_assert");
  Records faults = of.all({"cuda_illegal", "cuda_launch"});
  for (const Record* xid : of.all("xid")) {
    const int64_t number = xid->number("xid");
    if (number == 13 || number == 31) faults.push_back(xid);
  }
  if (asserts.empty() && faults.empty()) return;
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
