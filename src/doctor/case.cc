#include "doctor/case.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "doctor/ras_report.h"
#include "run/terminal_text.h"
#include "text/utf8.h"
#include "text/words.h"

namespace shanty {
namespace {

constexpr int64_t kSettledSequence = 8;  // collectives after which a job counts as training
constexpr size_t kMaxSubjects = 64;
constexpr uint64_t kLinesOfFrame = 8;  // between a frame of a traceback and its error

template <typename T>
void add_unique(std::vector<T>& list, T value) {
  if (list.size() >= kMaxSubjects) return;
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(std::move(value));
}

// Records by which a generation counts as failed.
bool is_failure(const Record& record) {
  return record.weight == Weight::kCause || record.weight == Weight::kFatal;
}

int first_failed_generation(const LogBook& book) {
  int found = -1;
  for (const Record& record : book.records) {
    if (is_failure(record) && (found < 0 || record.generation < found)) found = record.generation;
  }
  return found;
}

}  // namespace

Case::Case(const LogBook& book, const ClusterFacts& facts) : book_(book), facts_(facts) {
  generation_ = first_failed_generation(book);
  failed_ = generation_ >= 0;
  std::map<std::string, std::string> node_of_pod;  // under hostNetwork they have two names
  for (const Record& record : book.records) {
    if (!record.pod.empty() && !record.node.empty()) node_of_pod.emplace(record.pod, record.node);
  }
  for (const Record& record : book.records) {
    if (failed_ && record.generation > generation_) continue;
    by_event_[record.event].push_back(&record);
    if (record.rank >= 0) ranks_.insert(record.rank);
    std::string node = record.node;
    if (node.empty()) {
      const auto known = node_of_pod.find(record.pod);
      node = known == node_of_pod.end() ? record.pod : known->second;
    }
    if (node.empty()) continue;
    nodes_.insert(node);
    if (record.rank >= 0) ranks_of_node_[node].insert(record.rank);
    if (record.event == "nccl_bootstrap") {
      node_of_address_.emplace(std::string(record.get("ip")), node);
    }
  }
  for (const LogFile& file : book.files) {
    if (file.rank >= 0) ranks_.insert(file.rank);
    if (!file.node.empty()) nodes_.insert(file.node);
  }
  for (const PodFact& pod : facts.pods) {
    if (!pod.pod_ip.empty()) node_of_address_.emplace(pod.pod_ip, pod.name);
  }
  read_world();
  ras_ = read_ras(*this);
}

void Case::read_world() {
  const auto at_least = [this](int64_t size) {
    if (size > world_size_ && size < 1'000'000) world_size_ = static_cast<int>(size);
  };
  for (const Record* r : all("nccl_init")) at_least(r->number("nranks"));
  for (const Record* r : all("rdzv_world")) at_least(r->number("value"));
  for (const Record* r : all("pg_options")) at_least(r->number("size"));
  for (const Record* r : all("world_line")) at_least(r->number("world"));
  for (const Record* r : all("gloo_mesh")) at_least(r->number("size"));
  for (const Record* r : all("timeout")) {
    const bool gathers = r->get("op").find("ALLGATHER") != std::string_view::npos;
    const bool all_ranks = r->get("group").empty() || r->get("group").starts_with("0");
    const int64_t in = r->number("numel");
    if (gathers && all_ranks && in > 0) at_least(r->number("numel_out") / in);
  }
  const Record* nproc = first("launch_nproc");
  const Record* nodes = first("launch_max");
  if (nproc && nodes) at_least(nproc->number("value") * nodes->number("value"));
  if (!ranks_.empty()) at_least(*ranks_.rbegin() + 1);
  trained_ = has("step");
  for (const Record* r : all("counters")) trained_ |= r->number("completed") > kSettledSequence;
  for (const Record* r : all("timeout")) trained_ |= r->number("seq") > kSettledSequence;
}

Records Case::all(std::initializer_list<std::string_view> events) const {
  Records out;
  for (const std::string_view event : events) {
    const auto at = by_event_.find(event);
    if (at != by_event_.end()) out.insert(out.end(), at->second.begin(), at->second.end());
  }
  // The book is in order, and these point into it.
  if (events.size() > 1) std::sort(out.begin(), out.end(), std::less<>());
  return out;
}

const Record* Case::first(std::string_view event) const {
  const auto at = by_event_.find(event);
  return at == by_event_.end() ? nullptr : at->second.front();
}

Records Case::every(std::string_view event) const {
  Records out;
  for (const Record& record : book_.records) {
    if (record.event == event) out.push_back(&record);
  }
  return out;
}

bool Case::several_nodes() const {
  if (nodes_.size() > 1) return true;
  for (const Record* r : all("nccl_nodes")) {
    if (r->number("nodes") > 1) return true;
  }
  const Record* nodes = first("launch_max");
  return nodes && nodes->number("value") > 1;
}

std::string Case::who_is(std::string_view address) const {
  std::string host(address.substr(0, address.find('<')));
  if (host.starts_with("::ffff:")) host.erase(0, 7);
  auto at = node_of_address_.find(host);
  if (at == node_of_address_.end()) at = node_of_address_.find(host.substr(0, host.rfind(':')));
  return at == node_of_address_.end() ? host : at->second;
}

std::vector<int> Case::ranks_on(const std::string& node) const {
  const auto at = ranks_of_node_.find(node);
  if (at == ranks_of_node_.end()) return {};
  return {at->second.begin(), at->second.end()};
}

Records Case::unresolved() const {
  Records out;
  for (const Record* record : all("gai")) {
    // An address that is taken for a name: that of IPv6 in its brackets.
    const bool is_address = record->get("host").find(':') != std::string_view::npos;
    if (record->get("family") == "IPv4" || is_address) out.push_back(record);
  }
  for (const Record* record : all("name_unknown")) {
    if (record->text.find("network addresses of") == std::string::npos) out.push_back(record);
  }
  return out;
}

const Record* Case::last_of(int rank, std::initializer_list<std::string_view> events) const {
  const Record* last = nullptr;
  for (const Record* record : all(events)) {
    if (record->rank == rank) last = record;
  }
  return last;
}

bool Case::raised_under(const Record& error, std::string_view frame_event) const {
  const Records frames = all(frame_event);
  return std::any_of(frames.begin(), frames.end(), [&error](const Record* frame) {
    return frame->file == error.file && frame->line < error.line &&
           error.line - frame->line <= kLinesOfFrame;
  });
}

int Case::rank_of_worker(const Record& ended) const {
  if (ended.rank >= 0) return ended.rank;
  for (const Record* told : all("summary_rank")) {
    const bool same = ended.get("local").empty() || told->get("local") == ended.get("local");
    if (same) return static_cast<int>(told->number("a"));
  }
  return static_cast<int>(ended.number("local"));
}

Evidence Case::evidence(const Record& record) const {
  return {.file = book_.files[record.file].name, .line = record.line, .text = record.text};
}

std::string Case::place(const Record& record) const {
  const std::string& where = record.node.empty() ? record.pod : record.node;
  if (record.rank < 0) return where.empty() ? "the job" : where;
  return where.empty() ? fmt::format("rank {}", record.rank)
                       : fmt::format("rank {} on {}", record.rank, where);
}

Draft::Draft(const Case& of, std::string_view code, std::string_view failure_class,
             double confidence, Nearness nearness)
    : case_(of) {
  made_.finding.code = code;
  made_.finding.failure_class = failure_class;
  made_.finding.confidence = confidence;
  made_.finding.severity = Severity::kError;
  made_.nearness = nearness;
}

Draft& Draft::message(std::string text) {
  made_.finding.message = std::move(text);
  return *this;
}

Draft& Draft::severity(Severity severity) {
  made_.finding.severity = severity;
  return *this;
}

Draft& Draft::show(const Records& records) {
  std::set<std::pair<std::string_view, int>> shown;
  for (const bool again : {false, true}) {
    for (const Record* record : records) {
      if (shown.insert({record->event, record->rank}).second != again) show(record);
    }
  }
  return *this;
}

Draft& Draft::show(const Record* record) {
  if (!record) return *this;
  if (made_.unix_ns == 0 || (record->unix_ns != 0 && record->unix_ns < made_.unix_ns)) {
    made_.unix_ns = record->unix_ns;
  }
  return show(case_.evidence(*record));
}

Draft& Draft::show(const Evidence& evidence) {
  auto& list = made_.finding.evidence;
  if (list.size() < kMaxShown) add_unique(list, evidence);
  return *this;
}

Draft& Draft::blame(const Records& records) {
  for (const Record* record : records) blame(record);
  return *this;
}

Draft& Draft::blame(const Record* record) {
  if (!record) return *this;
  // Of one node the local ranks are all there are.
  const bool local = record->rank < 0 && !case_.several_nodes();
  rank(local ? record->local_rank : record->rank);
  node(record->node);
  return pod(record->pod);
}

Draft& Draft::rank(int rank) {
  if (rank >= 0) {
    add_unique(made_.finding.subject.ranks, rank);
    std::sort(made_.finding.subject.ranks.begin(), made_.finding.subject.ranks.end());
  }
  return *this;
}

Draft& Draft::node(std::string name) {
  if (!name.empty()) add_unique(made_.finding.subject.nodes, std::move(name));
  return *this;
}

Draft& Draft::pod(std::string name) {
  if (!name.empty()) add_unique(made_.finding.subject.pods, std::move(name));
  return *this;
}

Draft& Draft::device(std::string name) {
  if (!name.empty()) add_unique(made_.finding.subject.devices, std::move(name));
  return *this;
}

Draft& Draft::file(std::string name) {
  if (!name.empty()) add_unique(made_.finding.subject.files, std::move(name));
  return *this;
}

Draft& Draft::rule_out(std::string text) {
  made_.finding.ruled_out.push_back(std::move(text));
  return *this;
}

Draft& Draft::fix(std::string text) {
  made_.finding.fix.push_back(std::move(text));
  return *this;
}

Draft& Draft::prevent(std::string text) {
  made_.finding.prevent.push_back(std::move(text));
  return *this;
}

bool Draft::blames_someone() const {
  const Subject& who = made_.finding.subject;
  return !who.ranks.empty() || !who.nodes.empty() || !who.pods.empty();
}

bool is_refused_request(const Record& completion) {
  // ibv_wc_status: 12 and 13 are retries without an answer, 5 is flushed, 11 the other's failure.
  const int64_t status = completion.number("status");
  return (status >= 1 && status <= 4) || (status >= 6 && status <= 10);
}

bool is_port_fault(const Record& event) {
  const std::string_view what = event.get("what");
  return what.find("access violation") == what.npos && what.find("work queue") == what.npos &&
         what.find("client rereg") == what.npos;
}

std::string said(const Record& record, size_t columns) {
  return std::string(prefix_of_width(trimmed(record.text, " "), columns));
}

std::vector<std::string_view> lists_after(std::string_view text, std::string_view opening) {
  std::vector<std::string_view> out;
  for (size_t at = text.find(opening); at != text.npos; at = text.find(opening, at)) {
    at += opening.size();
    const size_t end = text.find(']', at);
    if (end == text.npos) break;
    out.push_back(text.substr(at, end - at));
  }
  return out;
}

std::string rank_list(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(ranks);
}

}  // namespace shanty
