#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr int64_t kShortTimeoutMs = 120'000;

// Everyone arrived in the same collective and nothing says why it does not end.
void everyone_waits(const Case& of, const TimeoutView& view, Hypotheses& out) {
  const bool network = of.several_nodes();
  Draft draft(of, "HANG199", network ? "fabric_fault" : "gpu_hw_fabricmgr", 0.35,
              Nearness::kStructure);
  draft.show(view.lines);
  if (view.timeout_ms > 0 && view.timeout_ms <= kShortTimeoutMs) {
    draft.message(
        fmt::format("cannot tell: the timeout of {} s may be shorter than a slow step, or "
                    "the collective {} number {} is stuck",
                    view.timeout_ms / 1000, view.op, view.sequence));
    draft.fix("run with the default timeout: does it go on?");
  } else {
    draft.message(
        fmt::format("cannot tell: all ranks arrived in {} number {} and it does not end: a "
                    "network or a GPU fault that no line names",
                    view.op, view.sequence));
  }
  draft.rule_out("desync: all ranks wait in the same collective with the same size");
  draft.rule_out("a late rank: all enqueued it");
  draft.fix(
      "to decide: dmesg -T | grep -i xid on every node; ibstat and the port's counters; "
      "nvidia-smi for a GPU at 100 % with little power");
  draft.fix(
      "and the flight recorder: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
      "TORCH_NCCL_DUMP_ON_TIMEOUT=1, then shanty doctor DUMPS");
  out.push_back(draft.done());
}

void nothing_named(const Case& of, const TimeoutView& view, Hypotheses& out) {
  Draft draft(of, "HANG199", "collective_desync", 0.3, Nearness::kSymptom);
  draft.show(view.lines);
  if (!is_excerpt(of, view)) {
    for (const int rank : view.late) draft.rank(rank);
  }
  draft.message(
      fmt::format("cannot tell: {} number {} timed out, and these logs do not say what the "
                  "other ranks did",
                  view.op.empty() ? "a collective" : view.op, view.sequence));
  draft.fix("give the logs of all ranks: the one that is silent is the first suspect");
  draft.fix("py-spy dump --pid PID on the rank that is late; the flight recorder's dumps");
  out.push_back(draft.done());
}

void unhandled_nccl(const Case& of, Hypotheses& out) {
  const Records lines = of.all("nccl_error");
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "net_interface", 0.25, Nearness::kSymptom);
  draft.show(lines).show(of.all("nccl_warn")).blame(lines);
  draft.message("cannot tell: NCCL failed and the line that says why is not in these logs");
  draft.fix("run again with NCCL_DEBUG=WARN (or INFO) and give all ranks' logs");
  out.push_back(draft.done());
}

void unhandled_gloo(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"gloo_timeout", "store_wait", "gloo_mesh"});
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "rank_busy", 0.4, Nearness::kSymptom);
  draft.show(lines);
  std::vector<int> silent;
  for (int rank = 0; rank < of.world_size(); ++rank) {
    bool spoke = false;
    for (const Record* record : lines) spoke |= record->rank == rank;
    if (!spoke) silent.push_back(rank);
  }
  if (static_cast<int>(silent.size()) < of.world_size()) {
    for (const int rank : silent) draft.rank(rank);
  }
  draft.message(silent.empty() || static_cast<int>(silent.size()) == of.world_size()
                    ? "cannot tell: a rank did not answer in time; it is late, stopped or stuck"
                    : "cannot tell why " + rank_list(silent) +
                          " did not answer in time: late, stopped or stuck");
  draft.fix(
      "on that rank: cat /proc/PID/status (State: T is stopped, D is storage), py-spy dump "
      "--pid PID");
  out.push_back(draft.done());
}

void unhandled_loader(const Case& of, Hypotheses& out) {
  const Records lines = of.all("loader_killed");
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "host_oom", 0.35, Nearness::kSymptom);
  draft.show(lines).blame(lines);
  draft.message(
      "cannot tell: a loader worker died; host memory, a full /dev/shm or a crash in its code");
  draft.fix("dmesg -T | grep -i -e oom -e segfault; df -h /dev/shm while it runs");
  draft.fix("num_workers=0 shows an exception of the dataset, if it is one");
  out.push_back(draft.done());
}

}  // namespace

// What is left when no cause is named: two possibilities and how to decide.
void cannot_tell_rule(const Case& of, Hypotheses& out) {
  const auto views = view_timeouts(of);
  if (!views.empty() && views.front().all_there) {
    everyone_waits(of, views.front(), out);
  } else if (!views.empty()) {
    nothing_named(of, views.front(), out);
  }
  unhandled_nccl(of, out);
  unhandled_gloo(of, out);
  unhandled_loader(of, out);
}

}  // namespace shanty
