#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "doctor/ras_report.h"
#include "doctor/rule.h"

namespace shanty {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kLongestS = 1'000'000;
constexpr int64_t kAroundNs = 60 * kNsPerSecond;

// A rank whose stack is inside the call of NCCL that starts a collective: the counters say that it
// never called.
void inside_nccl(const Case& of, Hypotheses& out) {
  for (const StackFact& stack : of.facts().stacks) {
    const auto inside =
        std::find_if(stack.frames.begin(), stack.frames.end(), [](const auto& frame) {
          return frame.find("ncclAllReduce") != frame.npos ||
                 frame.find("ncclGroupEnd") != frame.npos ||
                 frame.find("ncclLaunch") != frame.npos || frame.find("ncclProxy") != frame.npos;
        });
    if (inside == stack.frames.end()) continue;
    Draft draft(of, "HANG104", "process_frozen", 0.85, Nearness::kStructure);
    draft.show({stack.where.file, stack.where.line, *inside}).show(of.all({"timeout", "counters"}));
    draft.rank(stack.rank);
    draft.message(fmt::format("rank {} is stuck inside a call of NCCL", stack.rank));
    draft.rule_out("a rank that never called the collective: its stack is in the call");
    draft.fix(
        "another NCCL or driver version; gdb -p PID for the native stacks of its proxy thread");
    out.push_back(draft.done());
    return;
  }
}

// A watchdog that stops once a collective timed out waits for the abort: that is a consequence.
Records stuck_by_itself(const Case& of) {
  int64_t first_timeout = std::numeric_limits<int64_t>::max();
  for (const Record* record : of.all("timeout")) {
    if (record->own_time) first_timeout = std::min(first_timeout, record->unix_ns);
  }
  Records out;
  for (const Record* record : of.all("watchdog_stuck")) {
    const int64_t seconds = std::min(record->number("seconds", 0), kLongestS);
    const int64_t since = record->unix_ns - seconds * kNsPerSecond;
    const bool told = record->own_time && first_timeout != std::numeric_limits<int64_t>::max();
    if (!told || since < first_timeout - kAroundNs) out.push_back(record);
  }
  return out;
}

// Processes that do not answer NCCL's RAS although nobody calls them dead yet.
void silent_to_ras(const Case& of, Hypotheses& out) {
  Draft draft(of, "HANG104", "process_frozen", 0.6, Nearness::kStructure);
  bool some = false;
  for (const RasParagraph& paragraph : of.ras()) {
    if (paragraph.kind == RasParagraph::Kind::kDead) return;
    if (paragraph.kind != RasParagraph::Kind::kMissing) continue;
    some = true;
    blame_listed(paragraph, draft);
  }
  if (!some) return;
  draft.message(
      "a process does not answer NCCL's RAS: it is stopped or its host is stuck, or it ended less "
      "than a minute ago");
  draft.rule_out("a rank that is only late: its RAS thread would answer");
  draft.fix("ask ncclras again after a minute: DEAD then means that the process is gone");
  draft.fix("on that node: cat /proc/PID/status (State: T is stopped, D is storage)");
  out.push_back(draft.done());
}

}  // namespace

void process_frozen_rule(const Case& of, Hypotheses& out) {
  inside_nccl(of, out);
  silent_to_ras(of, out);
  const Records stuck = stuck_by_itself(of);
  const Records kernel = of.all({"hung_task", "d_state", "nfs_down", "lustre"});
  const Records gil = of.all("gil");
  if (stuck.empty() && kernel.empty()) return;
  bool none_in_flight = false;
  for (const Record* record : of.all("counters")) {
    none_in_flight |= record->number("enqueued", -2) == record->number("completed", -3);
  }
  const bool storage = !kernel.empty();
  Draft draft(of, "HANG104", "process_frozen", storage ? 0.9 : 0.82,
              storage ? Nearness::kCause : Nearness::kStructure);
  draft.show(kernel).show(stuck).show(gil).show(of.all("counters"));
  draft.blame(storage ? kernel : stuck);
  if (storage) {
    draft.message("processes of " + of.place(*kernel.front()) +
                  " hang in the kernel, waiting for storage: " + said(*kernel.front(), 100));
  } else {
    draft.message(gil.empty()
                      ? "the watchdog thread of " + of.place(*stuck.front()) +
                            " made no progress: the whole process was frozen (storage, a CUDA call)"
                      : "a thread of " + of.place(*stuck.front()) +
                            " held Python's lock and stopped the whole process");
  }
  if (none_in_flight) draft.rule_out("a collective that hangs: none was in flight");
  draft.rule_out("NCCL's timeout: this is the watchdog itself that could not run");
  draft.fix("ps -eLo pid,stat,wchan | grep ' D' on that node, dmesg -T | grep 'blocked for more'");
  draft.fix("state of the file system (NFS, Lustre) at that time; py-spy dump --native");
  out.push_back(draft.done());
}

}  // namespace shanty
