#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/behaviour.h"
#include "doctor/launcher_saw.h"
#include "doctor/ras_report.h"
#include "doctor/rule.h"
#include "doctor/rules/store_clients.h"

namespace shanty {
namespace {

void disruptions(const Case& of, Hypotheses& out) {
  Records lines = of.all({"disruption", "ray_dying", "node_not_ready", "slurm_cancel", "liveness"});
  // Slurm ends a step because one of its tasks failed: that task's own end is to be told.
  std::erase_if(lines, [](const Record* record) {
    return record->get("what").find("TASK FAILURE") != std::string_view::npos;
  });
  Draft draft(of, "RUN101", "rank_died_early", 0.92);
  bool told = !lines.empty();
  for (const PodFact& pod : of.facts().pods) {
    if (pod.disruption.empty()) continue;
    told = true;
    draft.pod(pod.name).node(pod.node).show(
        {pod.where.file, pod.where.line, "DisruptionTarget: " + pod.disruption});
  }
  if (!told || of.has("evicted")) return;
  draft.show(lines).blame(lines);
  for (const Record* record : lines) draft.node(std::string(record->get("who")));
  draft.message(std::string(of.has("slurm_cancel") ? "the job" : "a pod") +
                " was ended from outside (" +
                (lines.empty() ? std::string("disruption") : said(*lines.front(), 100)) +
                "); the others waited for it until their timeout");
  draft.rule_out("network and NCCL: the peer was ended on purpose");
  draft.fix("priority class, PodDisruptionBudget, do-not-disrupt annotation; save on SIGTERM");
  draft.prevent("shanty run saves on SIGTERM and goes on when the pod is back");
  out.push_back(draft.done());
}

bool is_signal(const Record& record) {
  return record.event == "segfault" || record.event == "sigsegv" || record.event == "glibc_abort" ||
         record.event == "terminate";
}

// torchrun lists who failed and ends with whom it saw fail first.
bool is_root_of_summary(const Case& of, const Record& record) {
  const Record* root = of.first("summary_root");
  return root && root->file == record.file && record.line > root->line;
}

// std::terminate() prints what() after its line: that names whose echo it is.
bool is_echo(const Case& of, const Record& terminate) {
  if (terminate.text.find("c10::Dist") != std::string::npos ||
      terminate.text.find("gloo::") != std::string::npos) {
    return true;
  }
  for (const Record* record : of.all({"timeout", "async_exception", "watchdog_died", "gloo_closed",
                                      "gloo_timeout", "gloo_mesh", "store_closed"})) {
    if (record->file == terminate.file && record->line == terminate.line + 1) return true;
  }
  return false;
}

// The first exception that is the program's own, by the clock.
const Record* first_own(const Case& of, Records& others) {
  const Record* first = nullptr;
  for (const Record* record : of.all({"exception", "no_module", "import_error", "terminate",
                                      "segfault", "sigsegv", "glibc_abort", "fatal_python"})) {
    if (record->event == "exception" && !is_own_exception(*record)) continue;
    if (record->event == "terminate" && is_echo(of, *record)) continue;
    const bool root_listed_later = first && first->event == "sigsegv" &&
                                   record->event == "sigsegv" && !is_root_of_summary(of, *first) &&
                                   is_root_of_summary(of, *record);
    if (root_listed_later) others.push_back(first);
    if (!first || root_listed_later) first = record;
    if (record->rank != first->rank) others.push_back(record);
  }
  return first;
}

// Ray hands an exception on with the address of the process that raised it.
void name_whom_ray_quotes(const Case& of, Draft& draft) {
  const Records quoted = of.all("ray_raised");
  if (quoted.empty()) return;
  const bool one_node = std::all_of(quoted.begin(), quoted.end(), [&quoted](const Record* record) {
    return record->node == quoted.front()->node;
  });
  draft.show(quoted.front());
  if (one_node) draft.node(quoted.front()->node);
}

void raised(const Case& of, Hypotheses& out) {
  Records others;
  const Record* first = first_own(of, others);
  if (!first) return;
  const bool signal = is_signal(*first);
  const bool imports = first->event == "no_module" || first->event == "import_error" ||
                       first->get("type") == "ModuleNotFoundError" ||
                       first->get("type") == "ImportError";
  const double confidence = of.has("traceback") ? 0.72 : 0.5;
  Draft draft(of, "RUN102", "rank_died_early", confidence, Nearness::kStructure);
  draft.show(first).show(of.all({"worker_failed", "summary_rank"})).blame(first);
  const std::string_view at = first->get("at");
  draft.message(fmt::format("{} {} first: {}{}", of.place(*first), signal ? "crashed" : "raised",
                            said(*first, 160), at.empty() ? "" : fmt::format(" ({})", at)));
  if (!draft.blames_someone()) name_whom_ray_quotes(of, draft);
  if (!others.empty()) draft.show(others);
  draft.rule_out("the timeouts and closed connections of the other ranks: they come after it");
  if (signal) {
    draft.fix("PYTHONFAULTHANDLER=1 shows the Python line, gdb -p or a core file the native one");
  }
  if (imports) {
    draft.fix("the same image by digest on every node; pip list of that node beside another");
  }
  draft.fix("mend the exception; if it depends on data, look at that rank's batch");
  out.push_back(draft.done());
}

void left_early(const Case& of, Hypotheses& out) {
  const Records zero = of.all("exit_zero");
  const Records terms = of.all("caught_term");
  const Records waits = of.all({"timeout", "nccl_peer_closed", "gloo_closed"});
  if ((zero.empty() && terms.empty()) || waits.empty()) return;
  const Record* first = zero.empty() ? terms.front() : zero.front();
  Draft draft(of, "RUN101", "rank_died_early", 0.85, Nearness::kStructure);
  draft.show(zero).show(terms).show(waits).blame(first);
  draft.message(
      of.place(*first) +
      " ended with success while the others went on: they wait for it until their timeout");
  draft.rule_out("network: the peer is not there any more");
  draft.fix("a signal handler must not exit with 0 before all ranks leave together");
  out.push_back(draft.done());
}

// The launcher itself was told to stop, and nothing says why.
void stopped(const Case& of, Hypotheses& out) {
  const Record* line = nullptr;
  for (const Record* record : of.all("death_signal")) {
    const bool tells = !record->get("signal").empty() || !record->get("name").empty();
    if (tells && !line) line = record;
  }
  if (!line) return;
  const int64_t hangup = 1;
  const bool closed = line->number("signal") == hangup || line->get("name") == "SIGHUP";
  const std::string_view number = line->get("signal");
  Draft draft(of, "RUN101", "rank_died_early", 0.5, Nearness::kPeers);
  draft.show(line).blame(line);
  draft.message(closed ? "the launcher got SIGHUP: the terminal that started it was closed"
                       : fmt::format("the launcher was stopped from outside by signal {}: a "
                                     "scheduler, a preemption or a person",
                                     number.empty() ? line->get("name") : number));
  draft.rule_out("a crash: the launcher tells of none before it");
  draft.fix(closed ? "start it under nohup, tmux or a scheduler"
                   : "who sent it: events of the pod or the Slurm job at that time");
  out.push_back(draft.done());
}

// Who hosts the store may have ended in order, before the others asked it a last time.
bool only_the_store_is_gone(const Case& of) {
  return of.has("store_closed") && !of.has("nccl_peer_closed") && !of.has("gloo_closed") &&
         !of.has("propagated_error");
}

void store_host_gone(const Case& of, Hypotheses& out) {
  if (!only_the_store_is_gone(of) || !closed_before_start(of).empty()) return;
  const Records lines = of.all("store_closed");
  Draft draft(of, "HANG199", "rank_died_early", 0.4, Nearness::kPeers);
  draft.show(lines).show(of.all("dump_store_gone"));
  std::string who;
  for (const Record* record : lines) {
    const std::string peer = of.who_is(record->get("peer"));
    const bool here = peer.starts_with("127.") || peer == "::1" || peer == "localhost";
    if (peer.empty() || here) continue;
    if (who.empty()) who = peer;
    draft.node(peer);
  }
  draft.message(fmt::format(
      "cannot tell: the process that hosts the store{} is gone, usually rank 0 or its agent: it "
      "failed, or it ended in order while others were still there",
      who.empty() ? "" : " at " + who));
  draft.rule_out("the ranks that print this: they only asked the store");
  draft.fix("to decide: the end of rank 0's own output, before these lines; its exit code");
  draft.fix("if it ended in order: a barrier, then destroy_process_group(), before ranks leave");
  out.push_back(draft.done());
}

// A rank that is silent while the victims name its node as the peer that closed.
void named_by_victims(const Case& of, Hypotheses& out) {
  std::map<std::string, std::set<int>> votes;
  Records lines;
  std::set<std::string> victims;
  for (const Record* record : of.all({"nccl_peer_closed", "gloo_closed", "store_closed"})) {
    lines.push_back(record);
    victims.insert(record->node);
    const bool here = record->get("peer").starts_with("127.") || record->get("peer") == "::1";
    if (!record->get("peer").empty() && !here) {
      votes[of.who_is(record->get("peer"))].insert(record->rank);
    }
  }
  for (const Record* record : of.all("propagated_error")) lines.push_back(record);
  if (lines.empty() || only_the_store_is_gone(of) || !closed_before_start(of).empty()) return;
  // Agents that never met have no workers that could die.
  const bool at_rendezvous = of.has("rdzv_victim") || of.has("rdzv_connection");
  if (at_rendezvous && of.ranks().empty() && !of.trained() && !of.has("rdzv_done")) return;
  Draft draft(of, "RUN101", "rank_died_early", 0.55, Nearness::kPeers);
  draft.show(lines);
  const auto most = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  std::string who = "a rank";
  if (most != votes.end()) {
    who = most->first;
    draft.node(who);
    for (const int rank : of.ranks_on(who)) {
      const bool spoke = std::any_of(lines.begin(), lines.end(),
                                     [&](const Record* line) { return line->rank == rank; });
      if (!spoke || of.ranks_on(who).size() == 1) draft.rank(rank);
    }
  }
  for (const Record* record : of.all("propagated_error")) {
    draft.rank(static_cast<int>(record->number("a")));
  }
  // Whom the launcher saw end, unless that one is a victim itself.
  const auto ended = failed_alone(of);
  const bool complains = ended && std::any_of(lines.begin(), lines.end(), [&](const Record* line) {
                           return line->rank == ended->rank;
                         });
  if (ended && !complains) draft.rank(ended->rank);
  draft.message(
      fmt::format("{} closed its connections first: it died or left, and its own log does "
                  "not say why",
                  who));
  draft.rule_out("the ranks that print socket errors: they are its victims");
  draft.fix(
      "the end of that rank's own log; kubectl describe pod, kubectl logs --previous; dmesg of "
      "its node");
  out.push_back(draft.done());
}

constexpr int64_t kLinesOfNotice = 12;

// Who is gone stands a few lines below.
Records hosts_below(const Case& of, const Records& lines) {
  Records out;
  for (const Record* host : of.all("peer_host")) {
    const bool below = std::any_of(lines.begin(), lines.end(), [&](const Record* line) {
      return line->file == host->file && host->line > line->line &&
             host->line <= line->line + kLinesOfNotice;
    });
    if (below) out.push_back(host);
  }
  return out;
}

// MPI's daemons, Ray's head and the like count their members: one is gone for them.
void lost_member(const Case& of, Hypotheses& out) {
  const Records lines = of.all("peer_lost");
  if (lines.empty()) return;
  const Records hosts = hosts_below(of, lines);
  Draft draft(of, "RUN101", "rank_died_early", 0.55, Nearness::kPeers);
  draft.show(lines).show(hosts);
  std::string who;
  for (const Record* record : hosts) draft.node(record->node);
  for (const Record* record : lines) {
    const bool named = !record->get("node").empty();
    if (named) draft.node(record->node);
    if (record->number("about") >= 0) draft.rank(record->rank);
    if (who.empty() && (named || record->number("about") >= 0)) who = of.place(*record);
  }
  if (who.empty() && !hosts.empty()) who = hosts.front()->node;
  draft.message(
      fmt::format("{} is gone for the others: its process or host ended, or the network "
                  "to it broke",
                  who.empty() ? "a member of the job" : who));
  draft.rule_out("who prints this: it only counts the others");
  draft.fix(
      "to decide: is that host up (ping, uptime, last reboot)? If so, the end of its own log");
  draft.fix("dmesg -T there: memory, Xid, link; kubectl describe pod or scontrol show node");
  out.push_back(draft.done());
}

// NCCL's own watch reached processes no more. The report lists their ranks by communicator.
void dead_by_ras(const Case& of, Hypotheses& out) {
  const auto report = of.ras();
  Draft draft(of, "RUN101", "rank_died_early", 0.75, Nearness::kStructure);
  int64_t dead = 0;
  for (const RasParagraph& paragraph : report) {
    if (paragraph.kind != RasParagraph::Kind::kDead) continue;
    dead = std::max(dead, paragraph.named);
    blame_listed(paragraph, draft);
  }
  if (dead == 0) return;
  for (const RasParagraph& paragraph : report) {
    if (paragraph.kind == RasParagraph::Kind::kMissing) blame_listed(paragraph, draft);
  }
  draft.message(fmt::format(
      "{} ended, or the host is gone: NCCL's RAS has not reached {} for a minute",
      dead == 1 ? "a process" : fmt::format("{} processes", dead), dead == 1 ? "it" : "them"));
  draft.rule_out("a rank that is only late: it would still answer RAS");
  draft.fix("its own log and exit code; kubectl describe pod; dmesg -T of its node");
  out.push_back(draft.done());
}

// A worker that the launcher saw fail first.
void launcher_saw(const Case& of, Hypotheses& out) {
  const Record* first = nullptr;
  for (const Record* record : of.all("worker_failed")) {
    const int64_t code = record->number("code", 0);
    if (code == -15 || code == 0) continue;
    if (!first) first = record;
  }
  const Record* spawned = first ? nullptr : of.first("spawn_exit");
  if (spawned) {
    Draft draft(of, "RUN102", "rank_died_early", 0.45, Nearness::kPeers);
    draft.show(spawned).blame(spawned).rank(static_cast<int>(spawned->number("local")));
    draft.message(
        fmt::format("process {} ended first: {}", spawned->get("local"), spawned->get("what")));
    draft.fix("the output of that process, above; PYTHONFAULTHANDLER=1 for signals");
    out.push_back(draft.done());
  }
  if (!first) return;
  Draft draft(of, "RUN102", "rank_died_early", 0.45, Nearness::kPeers);
  draft.show(first).show(of.all({"summary_rank", "summary_code"})).blame(first);
  draft.rank(of.rank_of_worker(*first));
  const std::string_view local = first->get("local");
  const std::string who = !local.empty()     ? fmt::format("local rank {}", local)
                          : first->rank >= 0 ? of.place(*first)
                                             : "a worker";
  draft.message(fmt::format("{} ended first, with exit code {}", who, first->get("code")));
  draft.fix("the output of that process: torchrun --log-dir DIR --redirects 3, or shanty logs");
  out.push_back(draft.done());
}

// Slurm could not start the tasks of a node.
void not_launched(const Case& of, Hypotheses& out) {
  const Records lines = of.all("slurm_launch");
  if (lines.empty()) return;
  Draft draft(of, "RUN101", "rank_died_early", 0.8);
  draft.show(lines).blame(lines);
  draft.message(fmt::format("Slurm did not start the tasks of {}: {}", of.place(*lines.front()),
                            lines.front()->get("what")));
  draft.rule_out("the program: it never ran there");
  draft.fix("scontrol show node and slurmd's log on that node; do the nodes' clocks agree?");
  out.push_back(draft.done());
}

}  // namespace

void rank_died_early_rule(const Case& of, Hypotheses& out) {
  disruptions(of, out);
  raised(of, out);
  left_early(of, out);
  stopped(of, out);
  store_host_gone(of, out);
  named_by_victims(of, out);
  lost_member(of, out);
  dead_by_ras(of, out);
  launcher_saw(of, out);
  not_launched(of, out);
}

}  // namespace shanty
