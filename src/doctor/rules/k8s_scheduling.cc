#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

void cannot_schedule(const Case& of, Hypotheses& out) {
  Records lines;
  for (const Record* record : of.all("sched_failed")) {
    if (record->text.find("free ports") == std::string::npos) lines.push_back(record);
  }
  if (lines.empty()) return;
  const std::string& text = lines.front()->text;
  const bool gpus = text.find("Insufficient nvidia.com/gpu") != std::string::npos;
  const bool taint = text.find("untolerated taint") != std::string::npos;
  Records zero = of.all("gpu_zero");
  Draft draft(of, "SCHED101", "k8s_scheduling", 0.9);
  draft.show(lines).show(zero).blame(lines);
  for (const NodeFact& node : of.facts().nodes) {
    if (node.gpus_allocatable == 0 && gpus) draft.node(node.name).show(node.where);
  }
  for (const PodFact& pod : of.facts().pods) {
    if (pod.phase == "Pending") draft.pod(pod.name);
  }
  const bool none_anywhere = !zero.empty();
  draft.message(fmt::format(
      "a pod cannot be scheduled: {}",
      taint && gpus ? "the taint of the GPU nodes is not tolerated, and the others have no GPU free"
      : taint       ? "the taint of the nodes is not tolerated"
      : none_anywhere ? "a node offers no nvidia.com/gpu at all: its device plugin sees none"
      : gpus          ? "not enough free GPUs"
                      : std::string(lines.front()->get("what").substr(0, 160))));
  draft.rule_out("image or volume: the pod has no node yet");
  if (none_anywhere) draft.rule_out("a full cluster: the node's allocatable is 0 or absent");
  if (taint) draft.fix("a toleration for that taint in the pod template");
  if (gpus) {
    draft.fix(
        "kubectl describe node: allocatable nvidia.com/gpu and who uses it; is the device "
        "plugin running, nvidia the default runtime?");
  }
  draft.fix("read every term of the sentence: the largest number is not always the binding one");
  draft.prevent("shanty check: will it fit now?");
  out.push_back(draft.done());
}

// The kubelet turned away a pod that the scheduler had sent.
void not_admitted(const Case& of, Hypotheses& out) {
  const Records lines = of.all("admission");
  if (lines.empty()) return;
  Draft draft(of, "SCHED101", "k8s_scheduling", 0.85);
  draft.show(lines).blame(lines);
  draft.message(fmt::format("the node refuses a pod: not enough {} left there",
                            lines.front()->get("resource")));
  draft.rule_out("memory that ran out in the program: the pod did not start");
  draft.fix("kubectl describe node: requests of all pods beside allocatable; static pods too");
  out.push_back(draft.done());
}

void gang(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"gang_wait", "quota"});
  if (lines.empty()) return;
  Draft draft(of, "SCHED101", "k8s_scheduling", 0.88);
  draft.show(lines).blame(lines);
  const Record& first = *lines.front();
  if (first.text.find("unable to create PodGroup") != std::string::npos) {
    draft.message(
        fmt::format("the gang scheduler's PodGroup{} cannot be created: its custom "
                    "resource is not installed, or the operator may not write it",
                    first.get("group").empty() ? "" : fmt::format(" {}", first.get("group"))));
    draft.rule_out("a full cluster: nothing was asked of it yet");
    draft.fix(
        "install the scheduler that the operator was told to use (Volcano, scheduler-plugins), or "
        "start the operator without --gang-scheduler-name");
    out.push_back(draft.done());
    return;
  }
  for (const GangFact& gang : of.facts().gangs) draft.show(gang.where);
  const std::string whose =
      of.facts().gangs.empty() ? "" : fmt::format(" {}", of.facts().gangs.front().name);
  draft.message(
      of.has("quota") || lines.front()->text.find("quota") != std::string::npos
          ? "the queue's quota does not hold the job: it waits for admission"
          : fmt::format("the gang{} waits: not all of its pods fit at the same time", whose));
  draft.rule_out("a single full node: gangs start whole or not at all");
  draft.fix("kubectl describe workload / podgroup: what is missing; ask for less or borrow quota");
  out.push_back(draft.done());
}

}  // namespace

void k8s_scheduling_rule(const Case& of, Hypotheses& out) {
  cannot_schedule(of, out);
  not_admitted(of, out);
  gang(of, out);
}

}  // namespace shanty
