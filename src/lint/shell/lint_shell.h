#pragma once

#include <vector>

#include "causes/finding.h"
#include "lint/source.h"

namespace shanty::lint {

// What will bite in a shell entry point or a batch script; the contract is that of lint_python.
// Manifests and Dockerfiles hand in what they give to a shell as a source of its own.
std::vector<Finding> lint_shell(const Source& source);

}  // namespace shanty::lint
