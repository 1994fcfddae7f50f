#pragma once

#include <vector>

#include "causes/finding.h"
#include "lint/source.h"

namespace shanty::lint {

// What will bite in a training script, in reading order, each finding with file, line, column and
// message; `why` and `fix` only where this case has something to add to the catalogue's page.
// Reads the text and runs nothing; a pure function, safe from any thread. Comments that ignore a
// finding are the caller's matter.
std::vector<Finding> lint_python(const Source& source);

}  // namespace shanty::lint
