#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"
#include "doctor/rules/store_clients.h"

namespace shanty {
namespace {

constexpr int64_t kBelievableParameters = 100'000;  // tensors of a model

void missing_variables(const Case& of, Hypotheses& out) {
  const Records lines = of.all("env_missing");
  if (lines.empty()) return;
  Draft draft(of, "RANK101", "launch_config", 0.94);
  draft.show(lines).blame(lines);
  draft.message(fmt::format("{} is not set for {}: the launcher gave the process no identity",
                            lines.front()->get("name"), of.place(*lines.front())));
  draft.fix(
      "start by torchrun or shanty run; a PyTorchJob injects RANK and WORLD_SIZE only with a "
      "Master replica");
  out.push_back(draft.done());
}

void cannot_divide(const Case& of, Hypotheses& out) {
  const Records lines = of.all("world_wrong");
  if (lines.empty() || of.trained()) return;
  Draft draft(of, "RANK101", "launch_config", 0.85);
  draft.show(lines).show(of.all("world_line")).blame(lines);
  draft.message("the number of ranks does not fit the configuration: " +
                std::string(lines.front()->get("what")));
  draft.rule_out("a missing rank: the program compares the numbers it was given");
  draft.fix("ranks = data x tensor x pipeline x context; the batch a multiple of what is left");
  draft.prevent("shanty plan: every number that follows from the job file");
  out.push_back(draft.done());
}

void no_group(const Case& of, Hypotheses& out) {
  const Records lines = of.all("pg_missing");
  if (lines.empty()) return;
  Draft draft(of, "RANK101", "launch_config", 0.6, Nearness::kStructure);
  draft.show(lines).blame(lines);
  draft.message(
      "the program uses the process group before there is one: it was started without a launcher, "
      "or skips init_process_group there");
  draft.fix("start by torchrun or shanty run; call init_process_group before what needs it");
  out.push_back(draft.done());
}

void wrong_ranks(const Case& of, Hypotheses& out) {
  const Records lines = of.all({"nccl_rank_taken", "nccl_invalid_rank", "nccl_procs_mismatch"});
  if (!lines.empty()) {
    Draft draft(of, "RANK101", "launch_config", 0.93);
    draft.show(lines).show(of.all("world_line"));
    for (const Record* record : lines) {
      if (record->event != "nccl_procs_mismatch") draft.rank(static_cast<int>(record->number("a")));
    }
    if (!draft.blames_someone()) draft.blame(lines);
    draft.message(lines.front()->event == "nccl_procs_mismatch"
                      ? "the processes disagree about WORLD_SIZE"
                  : lines.front()->get("a").empty()
                      ? "two processes were given the same rank"
                      : fmt::format("rank {} is claimed twice or does not exist: RANK or node rank "
                                    "is wrong",
                                    lines.front()->get("a")));
    draft.rule_out("network: the processes met and compared their numbers");
    draft.fix("print RANK, WORLD_SIZE, node rank of every pod; each node rank once");
    out.push_back(draft.done());
  }
  // Two agents with the same node rank.
  std::map<std::string, std::vector<const Record*>> by_rank;
  for (const Record* record : of.all("launch_rank")) {
    by_rank[std::string(record->get("value"))].push_back(record);
  }
  for (const auto& [rank, records] : by_rank) {
    std::set<std::pair<std::string, uint32_t>> places;
    for (const Record* record : records) {
      places.insert({record->node.empty() ? record->pod : record->node, record->file});
    }
    if (places.size() < 2) continue;
    Draft draft(of, "RANK101", "launch_config", 0.9, Nearness::kStructure);
    draft.show(Records(records)).blame(Records(records));
    draft.message(fmt::format("{} nodes were started with node rank {}", places.size(), rank));
    draft.rule_out("a blocked port: both wait for a partner that never comes");
    draft.fix("--node-rank 0, 1, ... once each, or from JOB_COMPLETION_INDEX");
    out.push_back(draft.done());
  }
}

// Processes tell the rank they were given: some have the same one, and others are nobody's.
void ranks_told_twice(const Case& of, Hypotheses& out) {
  std::map<int64_t, Records> told;
  int64_t world = 0;
  for (const Record* record : of.all("rank_told")) {
    told[record->number("a")].push_back(record);
    world = std::max(world, record->number("nranks"));
  }
  if (static_cast<int64_t>(told.size()) >= world || of.trained()) return;
  Draft draft(of, "RANK101", "launch_config", 0.85, Nearness::kStructure);
  for (const auto& [rank, records] : told) {
    if (records.size() > 1) draft.show(records).rank(static_cast<int>(rank));
  }
  if (!draft.blames_someone()) return;
  draft.message(fmt::format(
      "several processes have the same rank, and only {} of {} ranks are there: each node numbers "
      "its processes from 0",
      told.size(), world));
  draft.rule_out("network: they wait for ranks that nobody was given");
  draft.fix("set the node's rank on each node (NODE_RANK, --node-rank, SLURM_NODEID)");
  draft.fix("under Slurm: --ntasks-per-node as many as GPUs, started by srun");
  out.push_back(draft.done());
}

void no_login(const Case& of, Hypotheses& out) {
  const Records lines = of.all("ssh_refused");
  if (lines.empty() || of.trained()) return;
  Draft draft(of, "RANK101", "launch_config", 0.75);
  draft.show(lines);
  for (const Record* record : lines) draft.node(std::string(record->get("host")));
  draft.message("the launcher may not log in to another node by ssh: " + said(*lines.front()));
  draft.rule_out("network: sshd of the other node answered");
  draft.fix("ssh HOST true from the first node, as the user of the job: keys and known_hosts");
  out.push_back(draft.done());
}

// What the launcher starts on another node, or where, is not the same there.
void not_there(const Case& of, Hypotheses& out) {
  const Records lines = of.all("not_there");
  if (lines.empty() || of.trained()) return;
  Draft draft(of, "RANK101", "launch_config", 0.8);
  draft.show(lines).show(of.all("ended_badly")).blame(lines);
  draft.message(fmt::format("the shell of {} does not find what it is to run: {}: {}",
                            of.place(*lines.front()), lines.front()->get("path"),
                            lines.front()->get("what")));
  draft.rule_out("the program: it was not started there");
  draft.fix("the same paths on every node: a shared file system, or one image");
  draft.fix("a shell without a terminal reads no .bashrc: give the interpreter's whole path");
  out.push_back(draft.done());
}

// mpirun starts a daemon on each node first, and lists what may keep it from it.
void no_daemons(const Case& of, Hypotheses& out) {
  const Records lines = of.all("daemons_unstarted");
  if (lines.empty() || of.trained()) return;
  Draft draft(of, "RANK101", "launch_config", 0.5, Nearness::kStructure);
  draft.show(lines);
  draft.message(
      "mpirun could not start its daemons on other nodes: login, its own files there, or the way "
      "back");
  draft.rule_out("the program: it was not started");
  draft.fix("ssh HOST which orted (or prted) without a terminal; the same MPI on every node");
  draft.fix("is the host up? a pod that ended takes its daemon along: kubectl get pods");
  draft.fix("--mca oob_tcp_if_include with an interface on which the nodes reach mpirun");
  out.push_back(draft.done());
}

void shapes_of_launch(const Case& of, Hypotheses& out) {
  for (const auto event : {"launch_nproc", "launch_max", "launch_min"}) {
    std::map<std::string, Records> values;
    for (const Record* record : of.all(event)) {
      values[std::string(record->get("value"))].push_back(record);
    }
    if (values.size() < 2 || of.trained()) continue;
    Draft draft(of, "RANK101", "launch_config", 0.7, Nearness::kStructure);
    const Records* fewest = &values.begin()->second;
    for (const auto& [value, records] : values) {
      draft.show(records.front());
      if (records.size() < fewest->size()) fewest = &records;
    }
    draft.blame(*fewest);
    draft.message(fmt::format(
        "the nodes were launched with different {}",
        std::string_view(event).substr(7) == "nproc" ? "processes per node" : "numbers of nodes"));
    draft.fix("the same --nnodes and --nproc-per-node everywhere");
    out.push_back(draft.done());
  }
}

// k of n clients came, and nobody tried in vain.
void too_few_came(const Case& of, Hypotheses& out) {
  const Record* joined = of.first("clients_joined");
  if (!joined || of.has("client_timeout") || of.has("gai") || of.has("connect_failed") ||
      of.has("image_pull") || of.has("sched_failed") || of.has("gang_wait")) {
    return;
  }
  const bool lost = of.has("store_closed") || of.has("gloo_closed");
  if (lost && others_lost_a_store(of, *joined)) return;
  const int64_t came = joined->number("joined");
  const int64_t expected = joined->number("expected");
  bool pending = false;
  for (const PodFact& pod : of.facts().pods) pending |= pod.phase == "Pending";
  if (pending) return;
  Draft draft(of, "RANK101", "launch_config", 0.72, Nearness::kStructure);
  draft.show(of.all("clients_joined")).show(of.all("world_line"));
  for (int rank = 0; rank < expected && rank < 4096; ++rank) {
    if (came > 1 && static_cast<int64_t>(of.ranks().size()) == came && !of.ranks().contains(rank)) {
      draft.rank(rank);
    }
  }
  if (!draft.blames_someone()) draft.blame(joined);
  draft.message(
      fmt::format("{} of {} processes came: WORLD_SIZE is larger than what was started, or "
                  "some never started",
                  came, expected));
  draft.rule_out("network: no client tried and failed");
  draft.fix(
      "compare WORLD_SIZE with the number of processes that are started; helper replicas must "
      "not count");
  draft.fix("kubectl get pods: is one of them Pending or pulling its image?");
  out.push_back(draft.done());
}

// Gloo: each rank asks the store for the address of all others. Some ask for a rank that the rest
// of them, who failed to connect as well or are past that, never ask for: they were told a larger
// world. Those past it may see the others leave before their own wait ends.
void worlds_differ(const Case& of, Hypotheses& out) {
  constexpr std::string_view kAddresses = "/cpu//";  // .../cpu//N/RANK
  std::set<int> larger;
  int64_t mate = -1;
  Records lines;
  for (const Record* record : of.all("store_wait")) {
    const std::string_view key = record->get("key");
    const size_t slash = key.rfind('/');
    if (record->rank < 0 || key.find(kAddresses) == key.npos || slash == key.npos) continue;
    const std::string digits(key.substr(slash + 1));
    if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) continue;
    mate = std::max<int64_t>(mate, std::atoll(digits.c_str()));
    larger.insert(record->rank);
    lines.push_back(record);
  }
  std::set<int> smaller;
  for (const Record* record : of.all({"gloo_mesh", "gloo_timeout", "gloo_closed"})) {
    if (record->rank < 0 || larger.contains(record->rank)) continue;
    smaller.insert(record->rank);
    lines.push_back(record);
  }
  if (larger.empty() || smaller.empty() || *of.ranks().rbegin() >= mate) return;
  Draft draft(of, "RANK101", "launch_config", 0.8, Nearness::kStructure);
  draft.show(lines);
  for (const int rank : larger.size() <= smaller.size() ? larger : smaller) draft.rank(rank);
  const auto list = [](const std::set<int>& ranks) {
    return rank_list({ranks.begin(), ranks.end()});
  };
  draft.message(
      fmt::format("the processes disagree about WORLD_SIZE: {} waits for a rank {}, of "
                  "which {} knows nothing",
                  list(larger), mate, list(smaller)));
  draft.rule_out(fmt::format("a rank {} that is late: then all would wait for it", mate));
  draft.fix("print RANK and WORLD_SIZE in every process; the number must be the same in all");
  out.push_back(draft.done());
}

// More processes came to the first barrier than the world has.
void too_many_came(const Case& of, Hypotheses& out) {
  const Record* last = first_barrier(of);
  if (!last || last->number("joined") <= last->number("expected")) return;
  const Records lines = of.all({"barrier_wait", "barrier_timeout"});
  Draft draft(of, "RANK101", "launch_config", 0.8, Nearness::kStructure);
  draft.show(lines);
  draft.message(fmt::format(
      "{} processes came to a store for {}: another job or what is left of an earlier start uses "
      "the same store, or WORLD_SIZE is smaller than what was started",
      last->number("joined"), last->number("expected")));
  draft.rule_out("network: the processes reached the store");
  draft.fix("a port and --rdzv-id of its own for each job; end what is left of earlier starts");
  draft.fix("print RANK and WORLD_SIZE in every process");
  out.push_back(draft.done());
}

// DDP compared its parameter counts: a real difference comes at once and has plausible numbers.
void models_differ(const Case& of, Hypotheses& out) {
  const Record* line = of.first("ddp_params");
  if (!line || of.has("timeout")) return;
  const int64_t a = line->number("na");
  const int64_t b = line->number("nb");
  const bool absurd = a > kBelievableParameters || b > kBelievableParameters;
  if (absurd) return;
  Draft draft(of, "RANK101", "launch_config", b == 0 || a == 0 ? 0.7 : 0.85);
  draft.show(of.all("ddp_params")).show(of.all("ddp_shapes"));
  draft.rank(static_cast<int>(line->number("a"))).rank(static_cast<int>(line->number("b")));
  draft.message(
      fmt::format("rank {} has {} parameters, rank {} has {}: the ranks do not run the same "
                  "configuration",
                  line->get("a"), a, line->get("b"), b));
  draft.rule_out("a communication that failed: no timeout came before, the numbers are plausible");
  draft.fix("the same config, arguments and number of processes on every rank");
  out.push_back(draft.done());
}

}  // namespace

void launch_config_rule(const Case& of, Hypotheses& out) {
  missing_variables(of, out);
  no_group(of, out);
  cannot_divide(of, out);
  wrong_ranks(of, out);
  ranks_told_twice(of, out);
  no_login(of, out);
  not_there(of, out);
  no_daemons(of, out);
  shapes_of_launch(of, out);
  too_few_came(of, out);
  worlds_differ(of, out);
  too_many_came(of, out);
  models_differ(of, out);
}

}  // namespace shanty
