#pragma once

#include <vector>

#include "causes/finding.h"
#include "lint/manifest/manifest_set.h"

namespace shanty::lint {

// Findings in the scripts that a manifest carries: what containers hand to a shell, and the .py
// and .sh files of ConfigMaps. Only texts that stand in the file as they are run, line for line
// (literal blocks), so that places are true; their edits are left out.
std::vector<Finding> lint_embedded(const ManifestFile& file);

}  // namespace shanty::lint
