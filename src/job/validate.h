#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "text/diagnostic.h"
#include "text/yaml_tree.h"

namespace shanty {

inline constexpr size_t kMaxJobNameBytes = 63;
// Letters, digits, dots, dashes and underscores, starting with a letter or digit.
bool is_job_name(std::string_view text);

// Finds combinations that cannot work, each at the place in `root` that would have to change.
// `job` may lack what `diagnostics` already complain about.
void validate_job(const Job& job, const YamlNode& root, const std::string& file_name,
                  std::vector<Diagnostic>& diagnostics);

}  // namespace shanty
