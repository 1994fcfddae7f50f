#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "causes/finding.h"
#include "doctor/input.h"
#include "logs/log_book.h"

namespace shanty {

// What was gathered from the paths that the user gave.
struct CaseFiles {
  LogBook logs;                    // the events of every log, in order
  std::vector<Input> inputs;       // everything that is not a log
  std::vector<std::string> notes;  // what was cut, skipped or refused, for the user
};

struct DiagnoseOptions {
  int64_t now_unix_ns = 0;  // what is in the run directory ends here, if it still goes on
  // Called between two looks at a job that runs and stands still, until it is decided whether it
  // hangs. Empty: it is judged by one look.
  std::function<void(Duration)> wait = nullptr;
};

struct Diagnosis {
  std::vector<Finding> findings;   // the most likely first
  std::vector<std::string> notes;  // what could not be read
  std::vector<std::string> names;  // of nodes and pods that occur: what --redact replaces
};

// Reads files, directory trees, archives, "-" for stdin. A path that is not there is an error; a
// file inside a directory that cannot be read is a note.
Result<CaseFiles> gather_case(const std::vector<std::string>& paths);

// The verdict. Rules for logs and readers of the other inputs run on their own; then consequences
// are put behind their causes.
Diagnosis diagnose(const CaseFiles& files, const DiagnoseOptions& options = {});

}  // namespace shanty
