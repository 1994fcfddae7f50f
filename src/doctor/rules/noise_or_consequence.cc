#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

void one_exabyte(const Case& of, Hypotheses& out) {
  Records lines;
  for (const Record* record : of.all("gpu_oom")) {
    if (record->get("wanted").starts_with("more than 1EB")) lines.push_back(record);
  }
  if (lines.empty()) return;
  Draft draft(of, "NCCL190", "noise_or_consequence", 0.85);
  draft.severity(Severity::kWarning).show(of.all("timeout")).show(lines);
  draft.message(
      "the allocation of more than 1 EB is no lack of memory: a size came out of a "
      "collective that was aborted");
  draft.rule_out("GPU memory: no card could ever hold that");
  draft.fix("look for what ended the collective before it");
  out.push_back(draft.done());
}

void barrier_device(const Case& of, Hypotheses& out) {
  const Records lines = of.all("barrier_device");
  if (lines.empty()) return;
  Records wrong;
  for (const Record* record : lines) {
    const int64_t gpu = record->number("gpu");
    const bool known = record->local_rank >= 0 || (record->rank >= 0 && !of.several_nodes());
    const int64_t local = record->local_rank >= 0 ? record->local_rank : record->rank;
    if (known && gpu >= 0 && local != gpu && of.world_size() <= 16) wrong.push_back(record);
  }
  Draft draft(of, "NCCL190", "noise_or_consequence", wrong.empty() ? 0.4 : 0.6);
  draft.severity(wrong.empty() ? Severity::kNote : Severity::kWarning);
  draft.show(wrong).show(lines).blame(wrong);
  draft.message(wrong.empty()
                    ? "\"devices used by this process are currently unknown\" is no error: "
                      "only device_id= is missing"
                    : of.place(*wrong.front()) + " takes GPU " +
                          std::string(wrong.front()->get("gpu")) +
                          " for its barrier, which is not its own");
  draft.fix("init_process_group(device_id=torch.device('cuda', LOCAL_RANK))");
  out.push_back(draft.done());
}

// Lines that speak of an end that had another cause, or of nothing at all.
void echoes(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"dump_store_gone", "gil", "entire_process_down", "nccl_magic"});
  if (lines.empty()) return;
  Draft draft(of, "NCCL190", "noise_or_consequence", 0.5, Nearness::kSymptom);
  draft.severity(Severity::kNote).show(lines);
  draft.message("lines that look fatal and only follow from the end of the job");
  draft.fix("look for what came before them");
  out.push_back(draft.done());
}

}  // namespace

void noise_or_consequence_rule(const Case& of, Hypotheses& out) {
  one_exabyte(of, out);
  barrier_device(of, out);
  echoes(of, out);
}

}  // namespace shanty
