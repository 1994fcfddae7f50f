#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "doctor/ras_report.h"
#include "doctor/rule.h"
#include "doctor/rules/store_clients.h"
#include "doctor/stall_lists.h"
#include "text/words.h"

namespace shanty {
namespace {

constexpr int64_t kShortTimeoutMs = 120'000;
constexpr int64_t kTerminated = -15;
constexpr int64_t kNoSuchFamily = 97;   // EAFNOSUPPORT
constexpr int64_t kNoSuchAddress = 99;  // EADDRNOTAVAIL

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
  // Of two, the other one is the suspect, whatever else is missing here.
  const bool of_two = view.silent.size() == 1 && of.world_size() == 2;
  if (!is_excerpt(of, view) || of_two) {
    for (const int rank : of_two ? view.silent : view.late) draft.rank(rank);
  }
  draft.message(
      fmt::format("cannot tell: {} number {} timed out, and these logs do not say what the "
                  "other ranks did",
                  view.op.empty() ? "a collective" : view.op, view.sequence));
  draft.fix("give the logs of all ranks: the one that is silent is the first suspect");
  draft.fix("py-spy dump --pid PID on the rank that is late; the flight recorder's dumps");
  out.push_back(draft.done());
}

// What a part of NCCL has to do with, by the source that warns.
struct PartOfNccl {
  std::string_view source;
  std::string_view failure_class;
  std::string_view what;
};
constexpr PartOfNccl kPartsOfNccl[] = {
    {"transport/p2p.cc", "p2p_acs", "transfers between GPUs of one node"},
    {"transport/shm.cc", "shm", "shared memory"},
    {"shmutils.cc", "shm", "shared memory"},
    {"include/shm.h", "shm", "shared memory"},
    {"nvls.cc", "gpu_hw_fabricmgr", "NVLink's multicast"},
    {"net_ib", "rdma_config", "RDMA"},
    {"ibvwrap.cc", "rdma_config", "RDMA"},
    {"ib_plugin.c", "rdma_config", "RDMA"},
    {"cudawrap.cc", "driver_image", "the driver's interface"},
    {"graph/", "nccl_env_topo", "the topology"},
};

// nullptr: its source is none of these.
const PartOfNccl* part_that_warned(const Record& warning) {
  const std::string_view source =
      std::string_view(warning.text).substr(0, warning.text.find("NCCL WARN"));
  for (const PartOfNccl& part : kPartsOfNccl) {
    if (source.find(part.source) != source.npos) return &part;
  }
  return nullptr;
}

void unhandled_nccl(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"nccl_error", "nccl_cuda_failure"});
  if (lines.empty()) return;
  const Records warnings = of.all("nccl_warn");
  const auto named = std::find_if(warnings.begin(), warnings.end(), [](const Record* warning) {
    return part_that_warned(*warning) != nullptr;
  });
  const PartOfNccl* part = named == warnings.end() ? nullptr : part_that_warned(**named);
  Draft draft(of, "HANG199", part ? part->failure_class : "net_interface", part ? 0.35 : 0.25,
              Nearness::kSymptom);
  draft.show(lines).show(warnings).blame(lines);
  draft.message(
      part ? fmt::format("cannot tell for sure: NCCL failed in {}: {}", part->what, said(**named))
           : "cannot tell: NCCL failed and the line that says why is not in these logs");
  draft.fix("run again with NCCL_DEBUG=WARN (or INFO) and give all ranks' logs");
  out.push_back(draft.done());
}

// Connections to the store that fail for a reason that no other rule knows.
void unhandled_connection(const Case& of, Hypotheses& out) {
  Records lines = of.all("connect_failed");
  // Addresses of IPv6 that are tried in vain before the others.
  std::erase_if(lines, [](const Record* record) {
    return record->number("errno") == kNoSuchFamily || record->number("errno") == kNoSuchAddress;
  });
  const bool came_through = of.trained() || of.has("connected") || of.has("hosts_store") ||
                            of.has("rdzv_done") || of.has("nccl_init");
  if (lines.empty() || came_through) return;
  Draft draft(of, "HANG199", "net_interface", 0.35, Nearness::kSymptom);
  draft.show(lines).blame(lines);
  const Record& first = *lines.front();
  if (!draft.blames_someone()) draft.node(of.who_is(first.get("host")));
  draft.message(
      fmt::format("cannot tell why {}:{} is not reached ({}): a name that leads to a "
                  "wrong address, or a blocked port",
                  first.get("host"), first.get("port"), first.get("error")));
  draft.fix("what does the name lead to: getent hosts NAME (nslookup NAME), there and here?");
  draft.fix("MASTER_ADDR with the address of node 0 itself, then nc -vz ADDRESS PORT");
  out.push_back(draft.done());
}

// The full mesh of connections was never made.
void unhandled_mesh(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"gloo_mesh", "gloo_connect"});
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "net_interface", 0.4, Nearness::kSymptom);
  draft.show(lines).blame(lines);
  draft.message(
      "cannot tell: gloo did not connect all ranks: it took an interface that the others do not "
      "reach, or connections between the nodes are blocked");
  draft.fix("GLOO_SOCKET_IFNAME= the interface of the network that all nodes share (ip -br a)");
  draft.fix(
      "to decide: python -c 'import socket; print(socket.gethostbyname(socket.gethostname()))'"
      " on each node, then nc -vz ADDRESS PORT from one to the other");
  out.push_back(draft.done());
}

void unhandled_gloo(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"gloo_timeout", "store_wait"});
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "rank_busy", 0.4, Nearness::kSymptom);
  draft.show(lines);
  const Records present = of.all({"gloo_timeout", "store_wait", "barrier_reached"});
  std::vector<int> silent;
  for (int rank = 0; rank < of.world_size(); ++rank) {
    bool spoke = false;
    for (const Record* record : present) spoke |= record->rank == rank;
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
  Records lines;
  for (const Record* record : of.all("loader_killed")) {
    const std::string_view signal = record->get("signal");
    if (!signal.starts_with("Abort") && !signal.starts_with("Segm")) lines.push_back(record);
  }
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "host_oom", 0.35, Nearness::kSymptom);
  draft.show(lines).blame(lines);
  draft.message(
      "cannot tell: a loader worker died; host memory, a full /dev/shm or a crash in its code");
  draft.fix("dmesg -T | grep -i -e oom -e segfault; df -h /dev/shm while it runs");
  draft.fix("num_workers=0 shows an exception of the dataset, if it is one");
  out.push_back(draft.done());
}

// Horovod names who does not come, and not why.
void stalled(const Case& of, Hypotheses& out) {
  Records lines = stall_lines(of);
  if (lines.empty()) return;
  const std::set<int> missing = missing_of_stall(of, lines);
  Draft draft(of, "HANG199", "rank_busy", 0.4, Nearness::kSymptom);
  draft.show(lines);
  for (const int rank : missing) draft.rank(rank);
  std::string_view op = "the collectives";
  for (const Record* record : of.all({"stalled", "stall_rank", "stall_ready"})) {
    if (op == "the collectives" && !record->get("op").empty()) op = record->get("op");
  }
  draft.message(missing.empty()
                    ? "cannot tell which rank does not come to the collectives, or why"
                    : fmt::format("cannot tell why {} did not come to {}: busy, stopped, ended or "
                                  "on another path of the program",
                                  rank_list({missing.begin(), missing.end()}), op));
  draft.fix("py-spy dump --pid PID on that rank; its own output (mpirun --tag-output)");
  draft.fix(
      "do all ranks run the same number of batches, and validation or saves on rank 0 alone?");
  out.push_back(draft.done());
}

// NCCL's RAS tells which ranks have an error; that of a remote process is an echo.
void errors_by_ras(const Case& of, Hypotheses& out) {
  for (const RasParagraph& paragraph : of.ras()) {
    for (const auto& [error, ranks] : paragraph.errors) {
      if (error.starts_with("Remote")) continue;
      Draft draft(of, "HANG199", "rank_died_early", 0.4, Nearness::kSymptom);
      for (const Evidence& line : paragraph.lines) draft.show(line);
      for (const int rank : ranks) draft.rank(rank);
      draft.message(fmt::format("cannot tell why: {} told NCCL's RAS of an error ({})",
                                rank_list(ranks), error));
      draft.fix("its own log, with NCCL_DEBUG=WARN; dmesg -T | grep -i xid on its node");
      out.push_back(draft.done());
    }
  }
}

// Some have not come to the barrier at the end of init_process_group.
void first_barrier_waits(const Case& of, Hypotheses& out) {
  const Record* last = first_barrier(of);
  if (!last || last->number("joined") >= last->number("expected")) return;
  const Records lines = of.all({"barrier_wait", "barrier_timeout"});
  std::set<int> missing;
  for (int rank = 0; rank < std::min<int64_t>(last->number("expected"), kMaxNamedRanks); ++rank) {
    missing.insert(rank);
  }
  for (const Record* record : lines) missing.erase(record->rank);
  Draft draft(of, "HANG199", "rank_died_early", 0.4, Nearness::kSymptom);
  draft.show(lines);
  const int64_t absent = last->number("expected") - last->number("joined");
  const bool named = static_cast<int64_t>(missing.size()) == absent;
  for (const int rank : missing) {
    if (named) draft.rank(rank);
  }
  draft.message(fmt::format(
      "cannot tell why {} did not come to the first barrier: not started, ended or still starting",
      named ? rank_list({missing.begin(), missing.end()})
            : fmt::format("{} of {} processes", absent, last->number("expected"))));
  draft.fix("its own output; is its pod or node there: kubectl get pods, squeue");
  draft.fix("compare WORLD_SIZE with the number of processes that are started");
  out.push_back(draft.done());
}

// A launcher says who ended, with which code, and nothing of what it printed is here.
void ended_without_word(const Case& of, Hypotheses& out) {
  Records lines = of.all({"summary_rank", "mpi_exit", "mpi_failed", "ray_worker_died", "slurm_exit",
                          "sigsegv", "sigkill", "killed", "launcher_kills", "elastic_failed",
                          "crash_loop", "slurm_stopped"});
  for (const Record* record : of.all("slurm_cancel")) {
    if (record->get("what").find("TASK FAILURE") != std::string_view::npos) lines.push_back(record);
  }
  // SIGTERM is the launcher's own doing; the code stands one line below the rank.
  std::set<std::pair<uint32_t, uint64_t>> stopped;
  for (const Record* code : of.all("summary_code")) {
    if (code->number("code", 0) == kTerminated) stopped.emplace(code->file, code->line - 1);
  }
  std::erase_if(lines, [&stopped](const Record* record) {
    return stopped.contains({record->file, record->line}) ||
           record->get("what").find("Terminated") != std::string_view::npos;
  });
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "rank_died_early", 0.4, Nearness::kSymptom);
  draft.show(lines).show(of.all({"summary_code", "summary_host"})).blame(lines);
  for (const Record* record : of.all("summary_host")) draft.node(std::string(record->get("value")));
  for (const Record* record : of.all("ray_actor_at")) {
    const bool any = record->node == "0.0.0.0" || record->node.starts_with("127.");
    if (!any) draft.show(record).node(record->node);
  }
  const Record* code = of.first("summary_code");
  draft.message(fmt::format(
      "cannot tell why {} ended{}: what it printed itself is not here",
      of.place(*lines.front()) == "the job" ? "a process of the job" : of.place(*lines.front()),
      code ? fmt::format(" with code {}", code->get("code")) : ""));
  draft.fix(
      "the output of that process: torchrun --log-dir DIR --redirects 3, mpirun "
      "--output-filename DIR, ray logs worker, or shanty logs");
  draft.fix("to decide between a crash and memory: dmesg -T | grep -i -e oom -e segfault there");
  out.push_back(draft.done());
}

// Counters of one rank, or the end of the watchdog's report, without its first line.
void only_counters(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"timeout_at", "timeout_told"});
  if (lines.empty()) return;
  const Record* at = of.first("timeout_at");
  Draft draft(of, "HANG199", "collective_desync", 0.3, Nearness::kSymptom);
  draft.show(lines);
  draft.message(
      fmt::format("cannot tell: {} timed out, and these logs do not say what the other ranks did",
                  at ? fmt::format("collective number {}", at->get("at")) : "a collective"));
  draft.fix("give the logs of all ranks: the one that is silent is the first suspect");
  draft.fix("py-spy dump --pid PID on the rank that is late; the flight recorder's dumps");
  out.push_back(draft.done());
}

// HCCL and the runtime of NPUs: a collective does not end, and the peers' logs would say why.
void unhandled_npu(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"hccl_wait", "hccl_error"});
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "rank_busy", 0.35, Nearness::kSymptom);
  draft.show(lines);
  draft.message(
      "cannot tell: a collective of HCCL does not end: a rank that is late, ended or on another "
      "path of the program, or the network between the NPUs");
  draft.fix("the logs of all ranks (ASCEND_PROCESS_LOG_PATH): which one names no remote rank?");
  draft.fix("HCCL_EXEC_TIMEOUT and HCCL_CONNECT_TIMEOUT longer than a save or an evaluation");
  out.push_back(draft.done());
}

bool is_progress_after(const Case& of, const Record& line) {
  const Records progress = of.all({"step", "finished"});
  return std::any_of(progress.begin(), progress.end(), [&line](const Record* record) {
    return record->file == line.file && record->line > line.line;
  });
}

// Nothing of it is known but that it ended, and not well.
void ended_badly(const Case& of, Hypotheses& out) {
  Records lines = of.all({"exception", "ended_badly", "ray_actor_died", "async_exception"});
  if (lines.empty()) lines = of.all("traceback");  // whose end is cut off
  std::erase_if(lines, [&of](const Record* line) {
    const bool asked = line->get("type") == "SystemExit" && line->get("what") == "0";
    return asked || is_progress_after(of, *line);
  });
  if (lines.empty()) return;
  Draft draft(of, "HANG199", "rank_died_early", 0.2, Nearness::kSymptom);
  draft.show(lines).blame(lines);
  for (const Record* record : of.all("ray_actor_at")) draft.node(record->node);
  draft.message("cannot tell why the job ended: its last word here is \"" +
                said(*lines.back(), 140) +
                "\", an echo of something that failed before it or elsewhere");
  draft.fix("the logs of all ranks from their beginning: whose ends first, and with what?");
  draft.fix(
      "to decide between a kill and a crash: the exit codes (kubectl describe pod, sacct -j ID, "
      "echo $?); dmesg -T | grep -i -e oom -e segfault -e xid");
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
  } else {
    only_counters(of, out);
  }
  unhandled_nccl(of, out);
  unhandled_connection(of, out);
  unhandled_mesh(of, out);
  unhandled_gloo(of, out);
  stalled(of, out);
  errors_by_ras(of, out);
  first_barrier_waits(of, out);
  ended_without_word(of, out);
  unhandled_loader(of, out);
  unhandled_npu(of, out);
  ended_badly(of, out);
}

}  // namespace shanty
