#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "text/diagnostic.h"

namespace shanty {

struct ParsedJob {
  Job job;  // complete only when ok()
  std::vector<Diagnostic> diagnostics;

  bool ok() const { return !has_errors(diagnostics); }
};

// At most this many problems of one file are reported.
inline constexpr size_t kMaxJobDiagnostics = 100;

// Reads a job file from its text. All problems are found in one go, in reading order; warnings
// leave ok() true. Any bytes are safe to pass; time and memory are bounded by YamlLimits.
ParsedJob parse_job(std::string_view text, const std::string& file_name);

// The bytes of a job file. Fails when it cannot be read or is larger than YamlLimits allows.
Result<std::string> read_job_file(const std::string& path);

// The job as JSON that parse_job reads back to an equal Job, for the run directory.
std::string serialize_job(const Job& job);

}  // namespace shanty
