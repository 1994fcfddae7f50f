#pragma once

#include <string>
#include <string_view>

#include "cluster/cluster.h"

namespace shanty {

struct InitInputs {
  std::string script_path;
  std::string_view script_text;
  const Cluster& cluster;
};

// A commented job file for the script that parse_job accepts: five lines that count, each with
// where its value comes from.
std::string initial_job_file(const InitInputs& in);

}  // namespace shanty
