#pragma once

#include <span>
#include <vector>

#include "causes/finding.h"
#include "lint/source.h"

namespace shanty::lint {

// What will bite in these texts, seen together: a pod finds its claim and its service in the
// others. In the order of files and lines. Uses as many threads as the machine has cores.
std::vector<Finding> lint(std::span<const Source> sources);

}  // namespace shanty::lint
