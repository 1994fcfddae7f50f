#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shanty {

// What stands before a message: who says it, and when. -1, 0 and empty are unknown.
struct Prefix {
  int64_t unix_ns = 0;
  int rank = -1;        // global
  int local_rank = -1;  // of torchrun --tee, or of its log directory
  int group_rank = -1;  // inside the process group `group`
  int64_t pid = -1;
  std::string node;
  std::string pod;
  std::string group;   // "3", "3(DEFAULT)": GUID and description of a process group
  std::string level;   // as written
  std::string source;  // "ProcessGroupNCCL.cpp:455"
  // The message: a part of the line, or of a buffer that `message_of` fills.
  std::string_view message;
};

// A row of the grammar: `pattern` (RE2) matches at the start of what is left of a line. Its named
// groups fill the prefix: time, rank, local, pgrank, pid, node, pod, group, level, source; other
// names are for the reader. Rows are tried in their order, again and again, until none matches.
struct PrefixRow {
  std::string_view name;
  std::string_view starts;  // first characters it can start with; empty: any
  std::string_view pattern;
};
std::span<const PrefixRow> prefix_rows();

// Takes `line` apart: colours off, JSON opened, prefixes read. `buffer` holds the message where it
// is not a part of the line. `around_unix_ns` gives times without a year theirs.
inline constexpr int kMaxPrefixes = 8;  // of one line
Prefix read_prefix(std::string_view line, int64_t around_unix_ns, std::string& buffer);

// The same from the name of a log: "node-1/rank3.log", "attempt_0/2/stderr.log",
// "train-worker-0.log". `generation` is the number of restarts, -1 where it is not said.
struct NamePrefix {
  int rank = -1;
  int number = -1;  // "3.log": a rank only among others of its kind
  int local_rank = -1;
  int generation = -1;
  std::string node;
  std::string pod;
};
NamePrefix read_file_name(std::string_view name);

}  // namespace shanty
