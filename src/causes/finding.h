#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/diagnostic.h"

namespace shanty {

// A line that shows something: where it stands and what it says. Line 0: the file as a whole.
struct Evidence {
  std::string file;
  uint64_t line = 0;
  std::string text;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// Whom a finding is about.
struct Subject {
  std::vector<int> ranks;  // global
  std::vector<std::string> nodes;
  std::vector<std::string> pods;
  std::vector<std::string> devices;  // "GPU 3 of node-1", "mlx5_0", a PCI bus id
  std::vector<std::string> files;
  friend bool operator==(const Subject&, const Subject&) = default;
};

// Bytes [begin, end) of Finding::file become `text`.
struct Edit {
  size_t begin = 0;
  size_t end = 0;
  std::string text;
  friend bool operator==(const Edit&, const Edit&) = default;
};

// A case of a cause. Texts are sentences without a final full stop, lower case at the start.
struct Finding {
  std::string code;  // of the catalogue, "SHM001"
  Severity severity = Severity::kWarning;
  double confidence = 1;      // 0 to 1
  std::string failure_class;  // of what happened, "shm"; empty for what is only written
  Subject subject;
  std::string file;  // the text that is at fault, or empty
  int line = 0;      // from 1, as in Diagnostic
  int column = 0;
  std::string message;                 // this case, in one sentence
  std::string why;                     // empty: the catalogue's
  std::vector<Evidence> evidence;      // what proves it, in the order to read
  std::vector<std::string> ruled_out;  // "disk full: the path is in /dev/shm"
  std::vector<std::string> fix;        // what to do now, in order; empty: the catalogue's
  std::vector<std::string> prevent;    // codes of what would have caught it, or sentences
  std::vector<Edit> edits;             // the fix where it is mechanical; they do not overlap
};

// "error", "warning", "info".
std::string_view severity_name(Severity severity);

}  // namespace shanty
