#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

using Device = std::pair<std::string, std::string>;  // node, bus id

// Ranks of one communicator that start on the same card.
std::map<Device, std::map<int, const Record*>> ranks_by_device(const Case& of) {
  std::map<std::pair<Device, std::string>, std::map<int, const Record*>> by_comm;
  for (const Record* record : of.all("nccl_init")) {
    if (record->get("bus").empty()) continue;
    const Device device{record->node, std::string(record->get("bus"))};
    by_comm[{device, std::string(record->get("commid"))}].emplace(record->number("r"), record);
  }
  std::map<Device, std::map<int, const Record*>> out;
  for (const auto& [key, ranks] : by_comm) {
    std::set<int64_t> pids;
    for (const auto& [rank, record] : ranks) pids.insert(record->pid);
    if (ranks.size() > 1 && pids.size() > 1) out[key.first] = ranks;
  }
  return out;
}

void duplicate(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_duplicate_gpu");
  const auto shared = ranks_by_device(of);
  if (lines.empty()) return;  // NCCL itself refuses it where it is not allowed
  Draft draft(of, "GPU102", "gpu_assignment", 0.96);
  draft.show(lines);
  std::set<int> ranks;
  for (const Record* record : lines) {
    for (const auto name : {"a", "b"}) {
      const int rank = static_cast<int>(record->number(name));
      if (rank >= 0) ranks.insert(rank);
    }
    draft.node(record->node).pod(record->pod).device(std::string(record->get("bus")));
  }
  if (ranks.empty()) {
    for (const auto& [device, on_it] : shared) {
      draft.node(device.first).device(device.second);
      for (const auto& [rank, record] : on_it) {
        ranks.insert(rank);
        draft.show(record);
      }
    }
  }
  if (ranks.empty()) draft.blame(lines);
  for (const int rank : ranks) draft.rank(rank);
  draft.message(fmt::format("{} use the same GPU", ranks.empty()
                                                       ? "several ranks"
                                                       : rank_list({ranks.begin(), ranks.end()})));
  draft.rule_out("NCCL and driver: the library only refuses what it was told");
  draft.fix("torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before init_process_group");
  draft.fix("launch with torchrun or shanty run, so that LOCAL_RANK is set");
  draft.prevent("shanty lint RANK001");
  out.push_back(draft.done());
}

void ordinal(const Case& of, Hypotheses& out) {
  const Records lines = of.all("device_ordinal");
  if (lines.empty()) return;
  Draft draft(of, "GPU103", "gpu_assignment", 0.94);
  draft.show(lines).show(of.first("visible_devices")).show(of.first("device_count")).blame(lines);
  draft.message("a device number of " + of.place(*lines.front()) +
                " does not exist: more processes than visible GPUs, or an index counted twice");
  draft.rule_out("an asynchronous CUDA error: the number is refused when it is set");
  draft.fix("nproc per node = GPUs of the container (nvidia-smi -L there)");
  draft.fix("with one GPU in CUDA_VISIBLE_DEVICES the device is 0, not LOCAL_RANK");
  out.push_back(draft.done());
}

void busy(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"device_busy", "admission_gpu"});
  if (lines.empty()) return;
  Draft draft(of, "GPU103", "gpu_assignment", 0.9);
  draft.show(lines).blame(lines.front());
  draft.message("the GPU of " + of.place(*lines.front()) +
                " is taken or not to be had: exclusive mode, another process, or a device that the "
                "plugin gave away twice");
  draft.rule_out("the ranks that were ended by SIGTERM: they came after");
  draft.fix("nvidia-smi -q -d COMPUTE and the processes on that card; compute mode DEFAULT");
  out.push_back(draft.done());
}

}  // namespace

void gpu_assignment_rule(const Case& of, Hypotheses& out) {
  duplicate(of, out);
  ordinal(of, out);
  busy(of, out);
}

}  // namespace shanty
