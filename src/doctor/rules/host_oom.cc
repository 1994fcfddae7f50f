#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

// What proves that memory ran out: the kernel, the kubelet, Slurm, Ray, an allocation that failed.
Records proofs(const Case& of) {
  return of.all({"oom_invoked", "oom_constraint", "oom_killed", "oom_count", "oomkilled",
                 "slurm_oom", "ray_oom", "host_memory"});
}

// Processes that were killed without a word, and not by their own launcher.
Records silent_kills(const Case& of) {
  Records out;
  const Record* stopped = of.first("sent_term");
  const auto killed_before_stop = [&](const Record* record) {
    return !stopped || record->file != stopped->file || record->line <= stopped->line ||
           !of.has("sent_kill");
  };
  for (const Record* record : of.all({"worker_failed", "summary_code"})) {
    const int64_t code = record->number("code", 0);
    if ((code == -9 || code == 137) && killed_before_stop(record)) out.push_back(record);
  }
  for (const Record* record : of.all("loader_killed")) {
    if (record->get("signal").starts_with("Killed")) out.push_back(record);
  }
  for (const Record* record : of.all({"sigkill", "killed", "exit_137"})) out.push_back(record);
  for (const Record* record : of.all({"slurm_exit", "mpi_exit"})) {
    if (record->get("what").find("illed") != std::string_view::npos ||
        record->get("signal") == "9") {
      out.push_back(record);
    }
  }
  return out;
}

constexpr int64_t kNearlyFull = 97;  // percent

// Nothing says that somebody was killed, but memory was nearly full when the log ends.
void nearly_full(const Case& of, Hypotheses& out) {
  const Records shares = of.all("memory_share");
  if (shares.empty() || shares.back()->number("percent") < kNearlyFull) return;
  Draft draft(of, "MEM101", "host_oom", 0.6, Nearness::kStructure);
  draft.severity(Severity::kWarning).show(shares.back()).blame(shares.back());
  draft.message(fmt::format("host memory is nearly full: {} used, {} %", shares.back()->get("used"),
                            shares.back()->get("percent")));
  draft.fix("if the job ends without a word, the kernel killed it: dmesg -T | grep -i oom");
  draft.fix("fewer processes that load the model at once; offload to NVMe; more memory");
  out.push_back(draft.done());
}

// The kubelet tells of SIGKILL as code 137 and cannot always tell that it was for memory.
std::vector<const PodFact*> killed_pods(const Case& of) {
  std::vector<const PodFact*> out;
  for (const PodFact& pod : of.facts().pods) {
    if (pod.last_exit_code == 137 && pod.last_reason == "Error") out.push_back(&pod);
  }
  return out;
}

bool killed_by_others(const Case& of) {
  return of.has("disruption") || of.has("liveness") || of.has("evicted") || of.has("ray_dying") ||
         of.has("slurm_cancel");
}

}  // namespace

void host_oom_rule(const Case& of, Hypotheses& out) {
  Records proven = proofs(of);
  const Records kills = silent_kills(of);
  bool pod_says_so = false;
  for (const PodFact& pod : of.facts().pods) pod_says_so |= pod.last_reason == "OOMKilled";
  if (proven.empty() && !pod_says_so) {
    const auto pods = killed_pods(of);
    if (kills.empty() && pods.empty()) nearly_full(of, out);
    if ((kills.empty() && pods.empty()) || killed_by_others(of)) return;
    Draft draft(of, "MEM101", "host_oom", 0.6);
    draft.show(kills).show(of.all("memory_share")).blame(kills);
    for (const Record* record : kills) {
      if (record->event == "worker_failed") draft.rank(of.rank_of_worker(*record));
    }
    for (const PodFact* pod : pods) draft.pod(pod->name).node(pod->node).show(pod->where);
    draft.message((kills.empty() ? "pod " + pods.front()->name : of.place(*kills.front())) +
                  " was killed by SIGKILL without a word: most likely memory ran out");
    draft.rule_out("its launcher: it sent no signal before");
    draft.fix(
        "to be sure: kubectl describe pod (OOMKilled?), dmesg -T | grep -i oom, "
        "cat /sys/fs/cgroup/memory.events");
    draft.fix("raise the memory limit, or lower num_workers and prefetch_factor");
    out.push_back(draft.done());
    return;
  }
  Draft draft(of, "MEM101", "host_oom", 0.92);
  bool whole_node = false;
  std::string task;
  for (const Record* record : proven) {
    whole_node |=
        record->get("constraint") == "CONSTRAINT_NONE" || record->get("scope") == "Out of memory";
    if (task.empty()) task = record->get("task");
  }
  draft.show(proven).show(kills).blame(proven).blame(kills);
  for (const PodFact& pod : of.facts().pods) {
    if (pod.last_reason != "OOMKilled") continue;
    draft.pod(pod.name).node(pod.node).show(pod.where);
  }
  draft.message(fmt::format("{}{}: the kernel killed {}",
                            whole_node ? "the node ran out of memory" : "host memory ran out",
                            proven.empty() || of.place(*proven.front()) == "the job"
                                ? ""
                                : " (" + of.place(*proven.front()) + ")",
                            task.empty() ? "a process of the job" : task));
  if (whole_node) {
    draft.rule_out("the pod's own limit: the kernel's constraint is the whole node");
    draft.fix("find who uses the node's memory: the process that was killed may be innocent");
  } else {
    draft.fix("raise the memory limit, or lower num_workers and prefetch_factor");
  }
  draft.rule_out("GPU memory: this is the host's");
  draft.prevent("shanty plan: memory of loader workers");
  out.push_back(draft.done());
}

}  // namespace shanty
