#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/flight/trace.h"

namespace shanty::flight {

// A dump to read: `path`, or `bytes` where they are at hand already (out of an archive).
struct FlightFile {
  std::string name;  // as shown
  std::string path;
  std::string bytes;
};

// The dumps of one hang: those whose names differ in the rank alone.
struct DumpSet {
  struct Unread {
    std::string file;
    std::string why;
    bool refused = false;  // a pickle that would do something
  };
  std::string title;  // what the names have in common
  Tables tables;
  std::vector<RankTrace> ranks;  // by rank, each once
  std::vector<Unread> unread;
  std::vector<std::string> notes;
  uint64_t bytes_read = 0;
};

struct DumpName {
  std::string prefix;  // the name without its rank and extension
  int rank = -1;       // -1: the name tells none
  bool json = false;
};
// "nccl_trace_rank_12", "hang_rank0.pickle", "node3/dump_7.json".
DumpName parse_dump_name(std::string_view name);

// `threads` 0: as many as there are processors. Files are sorted into sets by their names; of a
// rank with several dumps in a set the pickle counts (JSON has no stacks), else the newest.
std::vector<std::unique_ptr<DumpSet>> load_dumps(std::span<const FlightFile> files,
                                                 unsigned threads = 0);

// Runs work(i) for i below `count` on several threads; `work` is called by all of them.
void parallel_for(size_t count, unsigned threads, const std::function<void(size_t)>& work);

}  // namespace shanty::flight
