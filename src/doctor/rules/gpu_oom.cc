#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

// "more than 1EB" is garbage in a size, not memory that was missing.
Records real_ones(const Case& of) {
  Records out;
  for (const Record* record : of.all({"gpu_oom", "nccl_gpu_oom"})) {
    if (!record->get("wanted").starts_with("more than 1EB")) out.push_back(record);
  }
  return out;
}

size_t foreign_processes(const Record& record) {
  size_t count = 0;
  for (size_t at = record.text.find("Process "); at != std::string::npos;
       at = record.text.find("Process ", at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

void gpu_oom_rule(const Case& of, Hypotheses& out) {
  const Records lines = real_ones(of);
  if (lines.empty()) return;
  const Record& first = *lines.front();
  std::set<int> ranks;
  size_t processes = 0;
  bool all_on_first_gpu = true;
  for (const Record* record : lines) {
    if (record->rank >= 0) ranks.insert(record->rank);
    processes = std::max(processes, foreign_processes(*record));
    all_on_first_gpu = all_on_first_gpu && record->get("gpu") == "0";
  }
  Draft draft(of, "MEM102", "gpu_oom", 0.93);
  draft.show(lines).blame(lines);
  if (const auto gpu = first.get("gpu"); !gpu.empty()) draft.device(fmt::format("GPU {}", gpu));
  if (processes >= 2 || (all_on_first_gpu && ranks.size() > 1)) {
    draft.message(fmt::format(
        "{} is full of {} processes: several ranks use the same card",
        first.get("gpu").empty() ? std::string("a GPU") : fmt::format("GPU {}", first.get("gpu")),
        std::max(processes, ranks.size())));
    draft.fix("load with map_location='cpu', or to the rank's own card (cuda:LOCAL_RANK)");
    draft.fix("set the device from LOCAL_RANK before anything touches CUDA");
    draft.rule_out("a batch that is too large: other processes hold the memory");
  } else {
    draft.message(
        fmt::format("{} ran out of GPU memory; the other ranks fail after it", of.place(first)));
    draft.fix("see with nvidia-smi who else holds memory on that card");
    draft.fix("smaller batch or sequence, activation checkpointing, or sharding (FSDP)");
  }
  draft.rule_out("network: closed sockets of the peers follow the first failed allocation");
  draft.prevent("shanty plan: does the model fit?");
  out.push_back(draft.done());
}

}  // namespace shanty
