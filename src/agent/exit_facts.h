#pragma once

#include <cstdint>
#include <string>

namespace shanty {

// A worker's own account of why it failed, from the files it left.
struct FirstError {
  std::string text;     // "ValueError: bad batch", one line, "" = none
  int64_t unix_ns = 0;  // when it was raised, 0 = unknown
};

// Reads the file that our hooks wrote, else the one of torch's @record. A missing, foreign or
// damaged file is "none".
FirstError read_first_error(const std::string& error_file, const std::string& elastic_error_file);

// Counts the processes that the kernel's OOM killer took in this process's cgroup.
class OomWatch {
 public:
  explicit OomWatch(const std::string& root = "");
  // True when the count has grown since the last call (or since construction).
  bool fired();

 private:
  int64_t read_count() const;
  std::string events_path_;  // "" = no cgroup v2 memory controller
  int64_t seen_ = 0;
};

}  // namespace shanty
