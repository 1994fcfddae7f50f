#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shanty {

// How much a line of a kind says about the cause.
enum class Weight {
  kCause,   // names what went wrong
  kFatal,   // something ended here; why is to be found out
  kVictim,  // the echo of another's end: it only votes for whom it names
  kFact,    // what was so: ranks, networks, versions, progress
};

// One line that means something. Strings that are empty and numbers that are -1 are unknown.
struct Record {
  std::string_view event;  // id of a row of the table of events; lives as long as the program
  Weight weight = Weight::kFact;
  uint32_t file = 0;    // index in LogBook::files
  uint64_t line = 0;    // from 1
  int64_t unix_ns = 0;  // 0: no time known. Taken from the neighbour before, where it has none
  bool own_time = false;
  int rank = -1;  // global
  int local_rank = -1;
  int64_t pid = -1;
  std::string node;
  std::string pod;
  int generation = 0;  // restarts of the job before this line
  std::vector<std::pair<std::string_view, std::string>> captures;
  std::string text;  // without its prefixes, printable, cut

  // Empty where the line has none by this name.
  std::string_view get(std::string_view name) const;
  int64_t number(std::string_view name, int64_t fallback = -1) const;
};

struct LogFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t lines = 0;
  int rank = -1;     // of the file's name, or of all its lines
  int number = -1;   // the file's name is nothing else, "3.log"
  std::string node;  // of the file's name
};

struct LogBook {
  std::vector<LogFile> files;
  std::vector<Record> records;  // by time where known, else in the order of the files
  // Lines that were recognised but not kept, by event: beyond the limits of scan.h.
  std::map<std::string_view, uint64_t> not_kept;
  std::vector<std::string> notes;  // cut lines, bombs, files that could not be read
};

}  // namespace shanty
