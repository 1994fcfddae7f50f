#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "doctor/cluster_facts.h"
#include "logs/log_book.h"

namespace shanty {

// How near a finding is to the cause. A finding of a later rank counts as a consequence of one of
// an earlier rank, unless it was there before it.
enum class Nearness {
  kCause,      // a line names it: "No space left on device" of /dev/shm
  kStructure,  // what several ranks say, put together: counters, addresses, who is missing
  kPeers,      // whom the victims name
  kSymptom,    // that it ended
};

// A finding before it has been weighed against the others.
struct Hypothesis {
  Finding finding;
  Nearness nearness = Nearness::kCause;
  int64_t unix_ns = 0;  // of its first evidence; 0: unknown
};

using Records = std::vector<const Record*>;

inline constexpr size_t kMaxNamedRanks = 4096;  // of one line that lists ranks

// What rules ask: the records of the first attempt that failed, and what follows from many of them.
// Everything is a view into the book, which must outlive it.
class Case {
 public:
  Case(const LogBook& book, const ClusterFacts& facts);

  const LogBook& book() const { return book_; }
  const ClusterFacts& facts() const { return facts_; }
  // What reports of NCCL's RAS tell: those that stand in logs as text, then those read as JSON.
  const std::vector<RasParagraph>& ras() const { return ras_; }
  // Records of these events, in order.
  Records all(std::initializer_list<std::string_view> events) const;
  Records all(std::string_view event) const { return all({event}); }
  const Record* first(std::string_view event) const;
  bool has(std::string_view event) const { return first(event) != nullptr; }
  // Of every generation: for what is compared across restarts.
  Records every(std::string_view event) const;

  // 0 where nothing tells it.
  int world_size() const { return world_size_; }
  // Ranks that said anything at all.
  const std::set<int>& ranks() const { return ranks_; }
  const std::set<std::string>& nodes() const { return nodes_; }
  // More than one node took part, as far as the lines tell.
  bool several_nodes() const;
  // Training steps, or collectives beyond the first ones, were seen.
  bool trained() const { return trained_; }
  // Something went wrong: a cause or an end, not only facts.
  bool failed() const { return failed_; }

  // The node (or pod) that has this address, or the address itself.
  std::string who_is(std::string_view address) const;
  // Global ranks on a node.
  std::vector<int> ranks_on(const std::string& node) const;
  // Lines that say that a name has no address. What only speaks of IPv6 is noise.
  Records unresolved() const;
  // The last thing that a rank said, of these events.
  const Record* last_of(int rank, std::initializer_list<std::string_view> events) const;

  // A line of this event, "optim_frame", stands among the last frames above an error.
  bool raised_under(const Record& error, std::string_view frame_event) const;

  // The rank of a worker that its launcher saw end: as that line says, or the launcher's summary,
  // or else its local rank.
  int rank_of_worker(const Record& ended) const;

  Evidence evidence(const Record& record) const;
  std::string place(const Record& record) const;  // "rank 3 on node-1", for messages

 private:
  void read_world();

  const LogBook& book_;
  const ClusterFacts& facts_;
  int generation_ = 0;
  std::map<std::string_view, Records> by_event_;
  std::set<int> ranks_;
  std::set<std::string> nodes_;
  std::map<std::string, std::string> node_of_address_;
  std::map<std::string, std::set<int>> ranks_of_node_;
  int world_size_ = 0;
  bool trained_ = false;
  bool failed_ = false;
  std::vector<RasParagraph> ras_;
};

// Puts a hypothesis together.
class Draft {
 public:
  Draft(const Case& of, std::string_view code, std::string_view failure_class, double confidence,
        Nearness nearness = Nearness::kCause);

  Draft& message(std::string text);
  Draft& severity(Severity severity);
  // Shows these lines, the first kMaxShown of each event and rank first.
  static constexpr size_t kMaxShown = 12;
  Draft& show(const Records& records);
  Draft& show(const Record* record);
  Draft& show(const Evidence& evidence);
  // It is the fault of who said these lines: ranks, nodes and pods.
  Draft& blame(const Records& records);
  Draft& blame(const Record* record);
  Draft& rank(int rank);
  Draft& node(std::string name);
  Draft& pod(std::string name);
  Draft& device(std::string name);
  Draft& file(std::string name);
  Draft& rule_out(std::string text);
  Draft& fix(std::string text);
  Draft& prevent(std::string text);
  bool blames_someone() const;
  Hypothesis done() const { return made_; }

 private:
  const Case& case_;
  Hypothesis made_;
};

// RDMA completions and events: a link, port or host that fails, or a request that the two ends do
// not agree on (memory keys, access rights, queue pairs), which is a matter of configuration.
bool is_refused_request(const Record& completion);
bool is_port_fault(const Record& event);

// What a line says, for a message: without blanks at its ends, whole characters of at most
// `columns`.
std::string said(const Record& record, size_t columns = 120);

// What stands between each `opening` and the bracket that closes it.
std::vector<std::string_view> lists_after(std::string_view text, std::string_view opening);

// "rank 3", "ranks 0, 1, 5-7".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace shanty
