#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

void too_old(const Case& of, Hypotheses& out) {
  const Records old = of.all({"driver_old", "driver_mismatch"});
  const Records none = of.has("container_gpu") ? Records{} : of.all("driver_none");
  if (old.empty() && none.empty()) return;
  const Records& lines = old.empty() ? none : old;
  Draft draft(of, "VER101", "driver_image", old.empty() ? 0.8 : 0.93);
  draft.show(lines).blame(lines);
  draft.message(
      old.empty() ? of.place(*lines.front()) +
                        " sees no GPU: the container got none, or the node's driver is not loaded"
      : of.has("driver_old")
          ? "the driver of " + of.place(*lines.front()) + " is too old for the CUDA of the image"
          : "the driver that " + of.place(*lines.front()) +
                " has loaded is of another version than its libraries");
  if (old.empty()) {
    draft.fix("ls /dev/nvidia*; does the pod ask for nvidia.com/gpu, is the runtime nvidia?");
  } else {
    draft.rule_out("no GPU given to the container: the driver answered with its version");
    if (of.has("driver_mismatch")) draft.fix("boot that node: its driver was updated in use");
    draft.fix("a newer driver on that node, or an image for an older CUDA");
  }
  draft.fix("compare nvidia-smi (CUDA Version, top right) with torch.version.cuda");
  draft.prevent("shanty check: driver and image");
  out.push_back(draft.done());
}

// The runtime could not give the container its GPUs.
void no_gpu_at_start(const Case& of, Hypotheses& out) {
  const Records lines = of.all("container_gpu");
  if (lines.empty() || of.has("driver_mismatch") || of.has("driver_old")) return;
  Draft draft(of, "VER101", "driver_image", 0.85);
  draft.show(lines).blame(lines);
  draft.message("the container runtime of " + of.place(*lines.front()) +
                " cannot give a container its GPUs: " + std::string(lines.front()->get("what")));
  draft.rule_out("the program: its container never started");
  draft.fix("nvidia-smi on that node itself; lsmod | grep nvidia; was its driver updated in use?");
  draft.fix("does nvidia-container-toolkit fit the driver? drain the node until both answer");
  draft.prevent("shanty check: driver and image");
  out.push_back(draft.done());
}

void no_kernel(const Case& of, Hypotheses& out) {
  const Records lines = of.all("no_kernel");
  if (lines.empty()) return;
  Draft draft(of, "VER101", "driver_image", 0.94);
  draft.show(lines).blame(lines);
  draft.message("torch of the image has no code for the GPU of " + of.place(*lines.front()));
  draft.rule_out("driver: it runs, the wheel lacks the architecture");
  draft.fix("a torch build whose torch.cuda.get_arch_list() holds that card's sm_XX");
  out.push_back(draft.done());
}

void libraries(const Case& of, Hypotheses& out) {
  Records lines = of.all({"symbol_missing", "exec_format"});
  // NCCL looks for plugins that may well not be there.
  std::erase_if(lines, [](const Record* record) {
    return record->text.find("NCCL INFO") != std::string::npos;
  });
  if (lines.empty()) return;
  Draft draft(of, "VER101", "driver_image", 0.8);
  draft.show(lines).blame(lines).file(std::string(lines.front()->get("file")));
  draft.message("a library of " + of.place(*lines.front()) +
                " does not fit the others: " + said(*lines.front(), 140));
  draft.fix("the same image by digest on every node; no LD_LIBRARY_PATH to another CUDA or NCCL");
  out.push_back(draft.done());
}

// NCCL versions by rank, where several were printed.
std::map<std::string, std::vector<const Record*>> versions(const Case& of) {
  std::map<std::string, std::vector<const Record*>> by_version;
  for (const Record* record : of.all("nccl_version")) {
    if (record->text.find("NCCL error in") != std::string::npos) continue;
    by_version[std::string(record->get("version"))].push_back(record);
  }
  return by_version;
}

void mixed(const Case& of, Hypotheses& out) {
  const Records told = of.all("nccl_version_mismatch");
  const Records truncated = of.all("nccl_truncated");
  const auto by_version = versions(of);
  if (told.empty() && truncated.empty() && by_version.size() < 2) return;
  const bool sure = !told.empty() || !truncated.empty();
  Draft draft(of, "VER102", "driver_image",
              !told.empty()       ? 0.96
              : truncated.empty() ? 0.55
                                  : 0.85,
              sure ? Nearness::kCause : Nearness::kStructure);
  draft.show(told).show(truncated);
  for (const Record* record : told) {
    for (const auto name : {"a", "b"}) draft.rank(static_cast<int>(record->number(name)));
  }
  if (by_version.size() > 1) {
    size_t fewest = SIZE_MAX;
    for (const auto& [version, records] : by_version) fewest = std::min(fewest, records.size());
    for (const auto& [version, records] : by_version) {
      draft.show(records.front());
      if (told.empty() && records.size() == fewest) draft.blame(Records(records));
    }
  } else if (told.empty()) {
    draft.blame(truncated);
  }
  draft.message("the ranks run different versions of NCCL");
  if (!sure) draft.severity(Severity::kWarning);
  draft.rule_out("network: the two ends reached each other and disagree about the content");
  draft.fix(
      "one image by digest on every node; compare imageID of the pods and NCCL version lines");
  draft.prevent("shanty run compares versions before the start");
  out.push_back(draft.done());
}

// A name that a package lacks on some ranks only: there it is another release, or not there.
void packages_differ(const Case& of, Hypotheses& out) {
  const Records lines = of.all("not_in_module");
  std::set<int> ranks;
  for (const Record* record : lines) {
    if (record->rank >= 0) ranks.insert(record->rank);
  }
  if (ranks.empty() || of.world_size() <= static_cast<int>(ranks.size())) return;
  // A rank that ended with the others could not yet have come to the line that raised.
  const bool others_spoke = of.ranks().size() > ranks.size();
  if (!others_spoke) return;
  const Record& first = *lines.front();
  Draft draft(of, "VER103", "driver_image", 0.8, Nearness::kStructure);
  draft.show(lines).blame(lines).file(std::string(first.get("file")));
  draft.message(
      fmt::format("{} of {} has no {}, the other ranks' has: another release is installed",
                  first.get("module"), of.place(first), first.get("what")));
  draft.rule_out("a fault of the program: on the other ranks the same code went past this line");
  draft.fix(fmt::format("pip show {} on that node and on another; one image by digest on all",
                        first.get("module").substr(0, first.get("module").find('.'))));
  draft.prevent("shanty run compares versions before the start");
  out.push_back(draft.done());
}

}  // namespace

void driver_image_rule(const Case& of, Hypotheses& out) {
  too_old(of, out);
  no_gpu_at_start(of, out);
  no_kernel(of, out);
  libraries(of, out);
  mixed(of, out);
  packages_differ(of, out);
}

}  // namespace shanty
