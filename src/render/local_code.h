#pragma once

#include <string>
#include <vector>

#include "job/job.h"
#include "render/render.h"

namespace shanty {

// The script and code.files of a job for a ConfigMap. `problem` says why there are none; whether
// that is an error depends on code.from.
struct LocalCode {
  std::vector<CodeFile> files;
  std::string problem;
};

// What a ConfigMap may hold is 1 MiB with all its keys; this leaves room for the job file.
inline constexpr size_t kMaxCodeBytes = 900u << 10;
inline constexpr size_t kMaxCodeFiles = 200;

// Looks where `shanty run` does: from run.working_dir, then beside the job file.
LocalCode read_local_code(const Job& job, const std::string& job_file);

}  // namespace shanty
