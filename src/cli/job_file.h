#pragma once

#include <optional>
#include <string>

#include "job/job.h"

namespace shanty {

// Reads and checks a job file; every problem goes to stderr with its place. Nothing is returned
// when the file cannot be used: the verb then ends with kExitUsage.
std::optional<Job> load_job_or_report(const std::string& path);

}  // namespace shanty
