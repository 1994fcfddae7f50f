#include "doctor/rule.h"

namespace shanty {
namespace {

// Lines in which memory under /dev/shm could not be had.
Records full_lines(const Case& of) {
  Records out;
  for (const Record* record : of.all("shm_full")) {
    const bool other_reason = record->text.find("Too many open files") != std::string::npos ||
                              record->text.find("Permission denied") != std::string::npos;
    // NCCL repeats a failure with the name of the segment and without its reason.
    const bool of_denied = of.has("shm_denied") && !record->text.starts_with("/dev/shm") &&
                           record->text.find("shared memory segment") != std::string::npos;
    if (!other_reason && !of_denied) out.push_back(record);
  }
  for (const Record* record : of.all("no_space")) {
    if (of.raised_under(*record, "shm_frame")) out.push_back(record);
  }
  return out;
}

Records bus_errors(const Case& of) {
  Records out = of.all({"bus_error", "sigbus"});
  for (const Record* record : of.all("worker_failed")) {
    if (record->number("code", 0) == -7) out.push_back(record);
  }
  for (const Record* record : of.all("summary_code")) {
    if (record->number("code", 0) == -7) out.push_back(record);
  }
  return out;
}

void add_pods_without_shm(const Case& of, Draft& draft) {
  for (const PodFact& pod : of.facts().pods) {
    if (pod.shm_mounted) continue;
    draft.pod(pod.name).show(
        {pod.where.file, pod.where.line, "no volume is mounted at /dev/shm: it has 64 MiB"});
  }
}

void denied(const Case& of, Hypotheses& out) {
  const Records lines = of.all("shm_denied");
  if (lines.empty()) return;
  Draft draft(of, "SHM101", "shm", 0.93);
  draft.show(lines).blame(lines);
  draft.message(of.place(*lines.front()) +
                " may not open shared memory: " + std::string(lines.front()->get("error")));
  draft.rule_out("a /dev/shm that is too small: it is refused before its size counts");
  draft.fix("ls -ld /dev/shm must say drwxrwxrwt: chmod 1777 /dev/shm");
  draft.fix(
      "old segments of another user: ls -l /dev/shm; a read-only root or a profile (AppArmor)");
  out.push_back(draft.done());
}

void gone(const Case& of, Hypotheses& out) {
  const Records lines = of.all("shm_gone");
  if (lines.empty() || of.trained()) return;
  Draft draft(of, "SHM101", "shm", 0.85);
  draft.show(lines).blame(lines).file(std::string(lines.front()->get("path")));
  draft.message("a segment of shared memory of " + of.place(*lines.front()) +
                " was removed while it was in use: " + std::string(lines.front()->get("path")));
  draft.rule_out("a /dev/shm that is too small: the segment had been made");
  draft.fix("RemoveIPC=no in /etc/systemd/logind.conf of the nodes; no job that cleans /dev/shm");
  out.push_back(draft.done());
}

}  // namespace

void shm_rule(const Case& of, Hypotheses& out) {
  denied(of, out);
  gone(of, out);
  const Records full = full_lines(of);
  const Records bus = bus_errors(of);
  if (full.empty() && bus.empty()) return;
  Draft draft(of, "SHM001", "shm", full.empty() ? 0.8 : 0.95);
  draft.show(full).show(bus).blame(full.empty() ? bus : full);
  if (!full.empty()) {
    draft.message("/dev/shm of " + of.place(*full.front()) + " is full: it is too small");
    draft.rule_out("disk full: the path is in /dev/shm");
    draft.rule_out("network: what the peers say of closed sockets came of this");
  } else {
    draft.message("a process of " + of.place(*bus.front()) +
                  " died of a bus error: /dev/shm is most likely too small");
    if (!of.has("mce")) draft.rule_out("memory hardware: no machine check in what is here");
    draft.rule_out(
        "a file that was cut while it was mapped: look if bus errors stay with more shm");
  }
  add_pods_without_shm(of, draft);
  draft.fix(
      "give the pod a volume emptyDir {medium: Memory} at /dev/shm, or docker --shm-size=16g");
  draft.fix("until then: fewer loader workers");
  draft.prevent("shanty lint SHM001");
  out.push_back(draft.done());
}

}  // namespace shanty
