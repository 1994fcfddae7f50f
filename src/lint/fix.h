#pragma once

#include <vector>

#include "causes/finding.h"
#include "lint/source.h"

namespace shanty::lint {

// Lints anew after each round of edits: one edit may move or settle another. What is left after so
// many rounds stays.
inline constexpr int kMaxFixRounds = 20;

// Applies what is mechanical to the texts, until nothing more is, and returns the findings that it
// settled. A second call finds nothing to do.
std::vector<Finding> fix_sources(std::vector<Source>& sources);

}  // namespace shanty::lint
