#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lint/source.h"

namespace shanty::lint {

// Limits of what one run reads.
inline constexpr size_t kMaxSources = 20'000;
inline constexpr size_t kMaxSourceBytes = 16u << 20;
inline constexpr size_t kMaxTotalBytes = 512u << 20;
inline constexpr int kMaxDirectoryDepth = 40;

struct Walked {
  std::vector<Source> sources;        // in the order of their names
  std::vector<std::string> left_out;  // why a file was not taken, one sentence each
};

// The sources below `paths`: files as they are named, directories without what is hidden, vendored
// or generated, "-" from `standard_input`. An error: a path that is named cannot be read, or is
// nothing that can be linted, or there is more than the limits allow.
Result<Walked> collect_sources(const std::vector<std::string>& paths, int standard_input = 0);

}  // namespace shanty::lint
