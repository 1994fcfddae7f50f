#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "logs/clocks.h"
#include "logs/log_book.h"
#include "logs/scan.h"

namespace shanty {
namespace {

constexpr int64_t kMaxRank = 1'000'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

using Process = std::pair<std::string, int64_t>;  // node, pid

// The rank of a process is the one it has in the largest communicator it took part in.
void fill_ranks_by_process(LogBook& book) {
  std::map<Process, std::pair<int64_t, int>> found;  // nranks, rank
  for (const Record& record : book.records) {
    if (record.event != "nccl_init" || record.pid < 0) continue;
    if (record.text.find("parent") != record.text.npos) continue;
    auto& best = found[{record.node, record.pid}];
    const int64_t nranks = record.number("nranks");
    if (nranks > best.first) best = {nranks, static_cast<int>(record.number("r"))};
  }
  for (Record& record : book.records) {
    if (record.rank >= 0 || record.pid < 0) continue;
    const auto at = found.find({record.node, record.pid});
    if (at != found.end()) record.rank = at->second.second;
  }
}

// "0.log", "1.log" ... are ranks; one such name alone, or numbers with gaps, may be anything.
void fill_by_number(LogBook& book) {
  std::set<int> numbers;
  for (const LogFile& file : book.files) {
    if (file.number >= 0) numbers.insert(file.number);
  }
  if (numbers.size() < 2) return;
  if (*numbers.rbegin() - *numbers.begin() >= 2 * static_cast<int>(numbers.size())) return;
  for (LogFile& file : book.files) {
    if (file.rank < 0) file.rank = file.number;
  }
  for (Record& record : book.records) {
    if (record.rank < 0) record.rank = book.files[record.file].rank;
  }
}

// Ray names hosts by address, NCCL by name.
void name_addresses(LogBook& book) {
  std::map<std::string, std::string> names;
  for (const Record& record : book.records) {
    if (record.event != "nccl_bootstrap" || record.node.empty()) continue;
    names.emplace(std::string(record.get("ip")), record.node);
  }
  for (Record& record : book.records) {
    const auto at = names.find(record.node);
    if (at != names.end()) record.node = at->second;
  }
}

// Where all lines that say so agree, the others of the file are theirs too.
void fill_by_file(LogBook& book) {
  struct Seen {
    int rank = -1;
    bool one_rank = true;
    std::string node;
    bool one_node = true;
    std::string pod;
    bool one_pod = true;
  };
  std::vector<Seen> seen(book.files.size());
  const auto note = [](std::string& known, bool& one, const std::string& value) {
    if (value.empty()) return;
    if (known.empty()) known = value;
    one = one && known == value;
  };
  for (const Record& record : book.records) {
    Seen& file = seen[record.file];
    if (record.rank >= 0) {
      if (file.rank < 0) file.rank = record.rank;
      file.one_rank = file.one_rank && file.rank == record.rank;
    }
    note(file.node, file.one_node, record.node);
    note(file.pod, file.one_pod, record.pod);
  }
  for (Record& record : book.records) {
    const Seen& file = seen[record.file];
    if (record.rank < 0 && file.one_rank && record.local_rank < 0) record.rank = file.rank;
    if (record.node.empty() && file.one_node) record.node = file.node;
    if (record.node.empty()) record.node = book.files[record.file].node;
    if (record.pod.empty() && file.one_pod) record.pod = file.pod;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (book.files[i].rank < 0 && seen[i].one_rank) book.files[i].rank = seen[i].rank;
    // A directory and the lines in it may name one host by two names: the lines' is its own.
    if (seen[i].one_node && !seen[i].node.empty()) book.files[i].node = seen[i].node;
  }
}

// A line of a launcher that tells of another rank, node or pod is about that one, and says nothing
// of the place of its neighbours.
void take_places_told(LogBook& book) {
  for (Record& record : book.records) {
    if (const int64_t rank = record.number("about"); rank >= 0 && rank < kMaxRank) {
      record.rank = static_cast<int>(rank);
    }
    if (const std::string_view node = record.get("node"); !node.empty()) record.node = node;
    if (const std::string_view pod = record.get("pod"); !pod.empty()) record.pod = pod;
  }
}

// The failure block of torchrun names a rank and then its exit code and signal; its agent's line
// has the local rank inside.
void fill_failure_blocks(LogBook& book) {
  constexpr uint64_t kBlockLines = 6;
  const Record* rank_line = nullptr;
  for (Record& record : book.records) {
    if (record.event == "worker_failed")
      record.local_rank = static_cast<int>(record.number("local"));
    if (record.event == "summary_rank") {
      rank_line = &record;
      record.rank = static_cast<int>(record.number("a"));
    }
    const bool inside = record.event == "summary_code" || record.event == "sigkill" ||
                        record.event == "sigbus" || record.event == "sigsegv";
    if (!inside || !rank_line || rank_line->file != record.file) continue;
    if (record.line - rank_line->line <= kBlockLines) record.rank = rank_line->rank;
  }
}

using LocalRank = std::pair<uint32_t, int>;  // file and local rank

// By its directory for the workers' own logs, "x/none_ab/attempt_0/1/stderr.log", else its name.
std::string_view launcher_of(const LogFile& file) {
  const std::string_view name = file.name;
  return name.substr(0, name.find("/attempt_"));
}

// The logs of one torchrun agent are often two: what it printed, which tells the global ranks, and
// the directory of its workers' logs, which has the local ones only. With more agents nothing says
// which directory is whose.
void share_ranks_of_one_agent(const LogBook& book, std::map<LocalRank, int>& ranks) {
  std::set<uint32_t> printed, logged;
  std::set<std::string_view> directories;
  for (const Record& record : book.records) {
    if (record.local_rank < 0) continue;
    const std::string_view name = book.files[record.file].name;
    const std::string_view launcher = launcher_of(book.files[record.file]);
    if (launcher == name) {
      printed.insert(record.file);
    } else {
      logged.insert(record.file);
      directories.insert(launcher);
    }
  }
  if (printed.size() != 1 || directories.size() != 1) return;
  const auto known = ranks;
  for (const auto& [local, rank] : known) {
    if (local.first != *printed.begin()) continue;
    for (const uint32_t file : logged) ranks.emplace(LocalRank(file, local.second), rank);
  }
}

// "[default3]:" lines that also know their global rank tell it for the others of the file.
void fill_by_local_rank(LogBook& book) {
  std::map<LocalRank, int> ranks;
  for (const Record& record : book.records) {
    if (record.local_rank >= 0 && record.rank >= 0) {
      ranks.emplace(LocalRank(record.file, record.local_rank), record.rank);
    }
    if (record.event == "summary_rank") {
      ranks.emplace(LocalRank(record.file, static_cast<int>(record.number("local"))),
                    static_cast<int>(record.number("a")));
    }
  }
  share_ranks_of_one_agent(book, ranks);
  for (Record& record : book.records) {
    if (record.rank >= 0 || record.local_rank < 0) continue;
    const auto at = ranks.find({record.file, record.local_rank});
    if (at != ranks.end()) record.rank = at->second;
  }
}

// A torchrun agent says when it restarts; what comes later in its file, or later by the clock in
// another one, belongs to the next generation.
void fill_generations(LogBook& book) {
  std::vector<int64_t> restarts;
  std::map<uint32_t, int> in_file;
  for (Record& record : book.records) {
    int& generation = in_file[record.file];
    record.generation = std::max(record.generation, generation);
    if (record.event != "restart") continue;
    ++generation;
    if (static_cast<size_t>(generation) > restarts.size()) {
      restarts.push_back(record.own_time ? record.unix_ns : kNever);
    } else if (record.own_time) {
      auto& known = restarts[static_cast<size_t>(generation) - 1];
      known = std::min(known, record.unix_ns);
    }
  }
  for (Record& record : book.records) {
    if (in_file[record.file] > 0 || record.generation > 0 || !record.own_time) continue;
    for (const int64_t when : restarts) record.generation += record.unix_ns > when ? 1 : 0;
  }
}

}  // namespace

std::string_view Record::get(std::string_view name) const {
  for (const auto& [key, value] : captures) {
    if (key == name) return value;
  }
  return {};
}

int64_t Record::number(std::string_view name, int64_t fallback) const {
  const std::string_view digits = get(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end != digits.data() ? value : fallback;
}

void settle(LogBook& book) {
  std::stable_sort(book.records.begin(), book.records.end(), [](const Record& a, const Record& b) {
    return std::tie(a.file, a.line) < std::tie(b.file, b.line);
  });
  fill_ranks_by_process(book);
  fill_by_number(book);
  name_addresses(book);
  fill_failure_blocks(book);
  fill_by_local_rank(book);
  fill_by_file(book);
  take_places_told(book);
  align_clocks(book);
  fill_generations(book);
  std::stable_sort(book.records.begin(), book.records.end(),
                   [](const Record& a, const Record& b) { return a.unix_ns < b.unix_ns; });
}

}  // namespace shanty
