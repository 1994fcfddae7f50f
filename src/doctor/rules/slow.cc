#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>

#include "doctor/rule.h"

namespace shanty {
namespace {

constexpr int64_t kThrottledUs = 1'000'000;
constexpr double kMixedSpeed = 0.5;
constexpr double kWaitingShare = 0.4;  // of a step

void clocks(const Case& of, Hypotheses& out) {
  const Records lines = of.all("slowdown");
  if (lines.empty()) return;
  Draft draft(of, "PERF101", "slow", 0.88);
  draft.severity(Severity::kWarning).show(lines).blame(lines);
  draft.message("a GPU of " + of.place(*lines.front()) +
                " is slowed down by its hardware: " + std::string(lines.front()->get("what")));
  draft.rule_out("a full GPU: waiting in NCCL shows 100 % everywhere; clocks and power tell");
  draft.fix("nvidia-smi -q -d CLOCK,POWER,PERFORMANCE; cooling and power of that node; drain it");
  out.push_back(draft.done());
}

void cpus(const Case& of, Hypotheses& out) {
  const Records advice = of.all("loader_advice");
  const Records throttled = of.all("throttled");
  const Records threads = of.all("omp");
  bool unset = false;
  for (const Record* record : threads) {
    unset |= record->get("value") == "unset" || record->get("value") == "None" ||
             record->number("value") >= 16;
  }
  bool hot = false;
  for (const Record* record : throttled) hot |= record->number("value") > kThrottledUs;
  bool too_many = false;
  for (const Record* record : advice) {
    too_many |= record->number("n") > record->number("max") && record->number("max") >= 0;
  }
  if (!unset && !hot && !too_many) return;
  Draft draft(of, "PERF101", "slow", hot ? 0.85 : unset ? 0.75 : 0.5, Nearness::kStructure);
  // PyTorch's advice alone is no sign that anything waits.
  draft.severity(unset || hot || of.has("slow_loader") ? Severity::kWarning : Severity::kNote);
  draft.show(threads).show(throttled).show(of.all({"threads", "cpu_max"})).show(advice);
  draft.blame(hot ? throttled : unset ? threads : advice);
  draft.message(unset || hot
                    ? "more threads than CPUs: each process starts a thread per core of the "
                      "host, and the pod's limit throttles them"
                    : "more loader workers than CPUs");
  draft.rule_out("the data loader's code: the CPUs are contended");
  draft.fix("OMP_NUM_THREADS = CPUs of the pod / processes; 8 to 16 CPUs per GPU");
  out.push_back(draft.done());
}

double number_after(std::string_view text, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const size_t at = text.find(key);
    if (at == text.npos) continue;
    size_t from = at + key.size();
    while (from < text.size() && std::string_view(" :='\"").find(text[from]) != text.npos) ++from;
    const std::string rest(text.substr(from, 24));
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    if (end != rest.c_str()) return value;
  }
  return -1;
}

// Steps that say how long they waited for data, where it is most of their time.
Records waiting_steps(const Case& of) {
  Records out;
  size_t told = 0;
  for (const Record* record : of.all("step")) {
    const double data = number_after(record->text, {"data_time_ms", "data_time", "data_wait_ms",
                                                    "data_wait", "data_ms", "data_s"});
    const double step = number_after(record->text, {"step_time_ms", "step_time", "iter_time",
                                                    "batch_time", "step_ms", "step_s"});
    if (data < 0 || step <= 0) continue;
    ++told;
    if (data > step * kWaitingShare) out.push_back(record);
  }
  if (out.size() * 2 < told) out.clear();
  return out;
}

void loader(const Case& of, Hypotheses& out) {
  Records lines = of.all("slow_loader");
  if (lines.empty()) lines = waiting_steps(of);
  if (lines.empty()) return;
  Draft draft(of, "PERF101", "slow", 0.7);
  draft.severity(Severity::kWarning).show(lines).blame(lines);
  draft.message("steps wait for data");
  draft.fix("more loader workers and CPUs, prefetch_factor, data on local NVMe");
  draft.prevent("shanty plan: loader workers");
  out.push_back(draft.done());
}

// Sockets where nothing says that there could be anything better.
void sockets(const Case& of, Hypotheses& out) {
  Records lines;
  for (const Record* record : of.all("nccl_network")) {
    if (record->get("net") == "Socket") lines.push_back(record);
    if (record->get("net") != "Socket") return;
  }
  if (lines.empty() || of.has("nccl_open_device") || !of.several_nodes()) return;
  Draft draft(of, "PERF101", "slow", 0.45, Nearness::kStructure);
  draft.severity(Severity::kNote).show(lines).show(of.all("nccl_ib_none")).blame(lines);
  draft.message(
      "NCCL goes over TCP sockets between the nodes: slow if they have InfiniBand or RoCE");
  draft.fix("ls /sys/class/infiniband on a node; if there is a card, give the pod its resource");
  out.push_back(draft.done());
}

// Gradients reduced in each micro-batch.
void accumulation(const Case& of, Hypotheses& out) {
  const Record* steps = of.first("accumulate");
  if (!steps || steps->number("value") < 2) return;
  std::map<int, int64_t> reductions;
  for (const Record* record : of.all("nccl_op")) {
    if (record->get("op") == "AllReduce") ++reductions[record->rank];
  }
  std::map<int, int64_t> optimizer;
  for (const Record* record : of.all("step")) ++optimizer[record->rank];
  for (const auto& [rank, count] : reductions) {
    const auto at = optimizer.find(rank);
    if (at == optimizer.end() || at->second < 2) continue;
    if (count < at->second * steps->number("value")) continue;
    Draft draft(of, "PERF101", "slow", 0.7, Nearness::kStructure);
    draft.severity(Severity::kWarning).show(steps).show(of.all("nccl_op"));
    draft.message(
        fmt::format("gradients are reduced {} times in {} optimizer steps with accumulation "
                    "over {}: all but the last are wasted",
                    count, at->second, steps->number("value")));
    draft.fix("model.no_sync() for all micro-batches but the last");
    out.push_back(draft.done());
    return;
  }
}

// The network was measured: what is far below the others, or wrong.
void measured(const Case& of, Hypotheses& out) {
  double best = 0;
  for (const BandwidthFact& fact : of.facts().bandwidths) {
    best = std::max(best, fact.gigabytes_per_s);
  }
  for (const BandwidthFact& fact : of.facts().bandwidths) {
    const bool slow = fact.gigabytes_per_s >= 0 && fact.gigabytes_per_s < best * kMixedSpeed;
    if (!slow && fact.wrong == 0) continue;
    Draft draft(of, "PERF101", "slow", 0.6, Nearness::kStructure);
    draft.severity(Severity::kWarning).show(fact.where).file(fact.where.file);
    draft.message(fact.wrong > 0 ? fmt::format("{} got {} wrong values", fact.what, fact.wrong)
                                 : fmt::format("{} measured {:.2f} GB/s, elsewhere it was {:.2f}",
                                               fact.what, fact.gigabytes_per_s, best));
    draft.fix(
        "below half of what the hardware gives is configuration, not algorithm: RDMA, MTU, "
        "interface");
    out.push_back(draft.done());
  }
}

}  // namespace

void slow_rule(const Case& of, Hypotheses& out) {
  clocks(of, out);
  cpus(of, out);
  loader(of, out);
  sockets(of, out);
  accumulation(of, out);
  measured(of, out);
}

}  // namespace shanty
