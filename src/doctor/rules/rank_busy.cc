#include <set>

#include <fmt/format.h>

#include "doctor/behaviour.h"
#include "doctor/rule.h"
#include "text/words.h"

namespace shanty {
namespace {

constexpr int64_t kWarmUp = 5;  // collectives in which a cold compiler may be what is late

void finish(Draft& draft, Hypotheses& out) {
  draft.rule_out("network: the late rank had not called the collective");
  draft.fix(
      "a longer timeout for that phase: init_process_group(timeout=...), or a monitored barrier");
  draft.fix("let the other ranks work too: sharded saves, distributed evaluation, a shared cache");
  out.push_back(draft.done());
}

void late_in_timeout(const Case& of, const TimeoutView& view, Hypotheses& out) {
  std::vector<int> busy;
  Records lines;
  std::string what;
  bool sure = false;
  const StackFact* stack = nullptr;
  for (const int rank : view.late) {
    const Behaviour was = behaviour_of(of, rank);
    if (was.doing == Doing::kBusy || was.doing == Doing::kLoading) {
      busy.push_back(rank);
      if (was.line) lines.push_back(was.line);
      if (was.stack) stack = was.stack;
      what = was.what;
      sure = true;
    } else if (was.doing == Doing::kUnknown && view.sequence >= 0 && view.sequence <= kWarmUp &&
               view.late.size() * 2 <= of.ranks().size() + view.late.size() &&
               !is_excerpt(of, view)) {
      busy.push_back(rank);
    }
  }
  if (busy.empty()) return;
  Draft draft(of, "HANG102", "rank_busy", sure ? 0.9 : 0.6, Nearness::kStructure);
  draft.show(lines).show(view.lines);
  if (stack) draft.show(stack->where);
  for (const int rank : busy) draft.rank(rank);
  draft.message(
      sure ? fmt::format("{} was busy ({}) while the others waited in {} number {} until "
                         "their timeout",
                         rank_list(busy), what.substr(0, 80), view.op, view.sequence)
           : fmt::format("{} had not come to the first collectives ({} number {}) when the "
                         "others gave up: it still compiles, loads or builds a cache",
                         rank_list(busy), view.op, view.sequence));
  if (!sure) draft.fix("look at that rank: top, py-spy dump; is its compile cache empty?");
  finish(draft, out);
}

// The others wait for rank 0's key in the store.
void store_key(const Case& of, Hypotheses& out) {
  const Records waits = of.all("unique_id_wait");
  if (waits.empty()) return;
  if (of.has("gai") || of.has("connect_failed")) return;
  const Behaviour was = behaviour_of(of, 0);
  if (was.doing == Doing::kFailed) return;
  Draft draft(of, "HANG102", "rank_busy", was.doing == Doing::kBusy ? 0.9 : 0.75,
              Nearness::kStructure);
  if (was.line) draft.show(was.line);
  draft.show(waits).rank(0);
  draft.message("rank 0 had not come to the first collective of a group when the others gave up" +
                (was.what.empty() ? std::string() : ": " + was.what.substr(0, 80)));
  finish(draft, out);
}

// Ranks gave up waiting in the store while one still prepared the data: by the frameworks' custom
// that is rank 0, and the others take its cache.
void store_wait(const Case& of, Hypotheses& out) {
  const Records waits = of.all("store_wait");
  const Records busy = of.all("busy");
  if (waits.empty() || busy.empty() || of.has("unique_id_wait") || of.has("timeout")) return;
  if (of.trained() || of.has("gai") || of.has("connect_failed")) return;
  const Record& last = *busy.back();
  for (const Record* record : waits) {
    if (record->rank == 0) return;
  }
  const int rank =
      last.rank >= 0 && of.ranks().size() > 1 && last.file != waits.front()->file ? last.rank : 0;
  Draft draft(of, "HANG102", "rank_busy", 0.75, Nearness::kStructure);
  draft.show(&last).show(waits).rank(rank);
  draft.message(fmt::format("rank {} was busy when the others gave up: {}", rank,
                            std::string(last.get("what").substr(0, 80))));
  finish(draft, out);
}

// A barrier or a collective without a watchdog's line: who is missing is told by the store's keys.
void barrier(const Case& of, Hypotheses& out) {
  const Records lines = of.all("monitored_barrier");
  if (lines.empty()) return;
  std::vector<int> missing;
  for (const Record* record : lines) {
    const std::vector<int> ranks = numbers_in(record->get("ranks"), kMaxNamedRanks);
    missing.insert(missing.end(), ranks.begin(), ranks.end());
  }
  std::set<int> unique(missing.begin(), missing.end());
  missing.assign(unique.begin(), unique.end());
  if (missing.empty()) return;
  bool failed = false;
  Records did;
  for (const int rank : missing) {
    const Behaviour was = behaviour_of(of, rank);
    failed |= was.doing == Doing::kFailed || was.doing == Doing::kLeft;
    if (was.line) did.push_back(was.line);
  }
  if (failed) return;
  Draft draft(of, "HANG102", "rank_busy", did.empty() ? 0.55 : 0.8, Nearness::kStructure);
  draft.show(lines).show(did);
  for (const int rank : missing) draft.rank(rank);
  draft.message(rank_list(missing) + " did not come to the barrier in time");
  finish(draft, out);
}

// gloo has no counters: who timed out was waiting, the others were late.
void late_for_gloo(const Case& of, Hypotheses& out) {
  std::set<int> waited;
  const Records lines = of.all("gloo_timeout");
  for (const Record* record : lines) waited.insert(record->rank);
  std::vector<int> busy;
  Records did;
  for (int rank = 0; rank < of.world_size(); ++rank) {
    if (waited.contains(rank)) continue;
    const Behaviour was = behaviour_of(of, rank);
    if (was.doing != Doing::kBusy && was.doing != Doing::kLoading) continue;
    busy.push_back(rank);
    if (was.line) did.push_back(was.line);
  }
  if (lines.empty() || busy.empty()) return;
  Draft draft(of, "HANG102", "rank_busy", 0.85, Nearness::kStructure);
  draft.show(did).show(lines);
  for (const int rank : busy) draft.rank(rank);
  draft.message(rank_list(busy) + " was busy while the others waited until their timeout" +
                (did.empty() ? std::string() : ": " + said(*did.front(), 80)));
  finish(draft, out);
}

// Init started on some ranks and never completed: the others have not come to the first collective.
void init_without_end(const Case& of, Hypotheses& out) {
  if (of.failed() && (of.has("nccl_connect") || of.has("nccl_error") || of.has("timeout"))) return;
  std::set<int> started;
  std::set<int> complete;
  Records lines;
  for (const Record* record : of.all("nccl_init")) {
    const int rank = static_cast<int>(record->number("r"));
    (record->get("what") == "START" ? started : complete).insert(rank);
    if (record->get("what") == "START") lines.push_back(record);
  }
  if (started.empty() || complete.size() >= started.size() || of.trained()) return;
  std::set<int64_t> counts;
  for (const Record* record : of.all("nccl_nodes")) counts.insert(record->number("locals"));
  if (counts.size() > 1) return;
  std::vector<int> missing;
  for (int rank = 0; rank < of.world_size(); ++rank) {
    if (!started.contains(rank)) missing.push_back(rank);
  }
  // Where nobody completes, it is not that one is late.
  if (missing.empty() && !complete.empty()) {
    for (const int rank : started) {
      if (!complete.contains(rank)) missing.push_back(rank);
    }
  }
  // More that are missing than are there: an excerpt.
  if (missing.empty() || missing.size() > started.size()) return;
  Draft draft(of, "HANG102", "rank_busy", 0.6, Nearness::kStructure);
  draft.show(lines);
  for (const int rank : missing) draft.rank(rank);
  draft.message(
      rank_list(missing) +
      " has no \"Init COMPLETE\": the first collective waits for it, and no timeout counts "
      "there");
  draft.fix("py-spy dump of that rank; device_id= in init_process_group makes init eager");
  finish(draft, out);
}

// Stacks alone: a loader that does not answer.
void stuck_loader(const Case& of, Hypotheses& out) {
  if (of.has("timeout")) return;
  Draft draft(of, "HANG102", "rank_busy", 0.8, Nearness::kStructure);
  bool found = false;
  bool worker = false;
  for (const StackFact& stack : of.facts().stacks) {
    const bool waits = waits_for_data(stack);
    for (const std::string& frame : stack.frames) {
      const bool loading =
          waits && (frame.find("_try_get_data") != frame.npos || frame.starts_with("__next__ ("));
      const bool deep = frame.find("_worker_loop") != frame.npos;
      if (!loading && !deep) continue;
      found = true;
      worker |= deep;
      draft.rank(stack.rank).show({stack.where.file, stack.where.line, frame});
    }
  }
  if (!found) return;
  draft.message(worker ? "a loader worker is stuck: a lock held across fork (OpenCV, OpenMP) or "
                         "storage that does not answer"
                       : "a rank waits for its data loader");
  draft.fix("multiprocessing_context='spawn', cv2.setNumThreads(0), OMP_NUM_THREADS=1");
  finish(draft, out);
}

}  // namespace

void rank_busy_rule(const Case& of, Hypotheses& out) {
  const auto views = view_timeouts(of);
  if (!views.empty() && views.front().odd_op.empty() && views.front().odd_size.empty()) {
    late_in_timeout(of, views.front(), out);
  }
  store_key(of, out);
  store_wait(of, out);
  barrier(of, out);
  late_for_gloo(of, out);
  init_without_end(of, out);
  stuck_loader(of, out);
}

}  // namespace shanty
