#pragma once

#include <optional>
#include <string>

#include "doctor/rule.h"

namespace shanty {

struct FailedWorker {
  int rank = -1;
  std::string node;  // empty where the launcher does not tell
};

// The one process that the launcher saw fail by itself. None where it saw several end alike.
std::optional<FailedWorker> failed_alone(const Case& of);

// Gives findings about one process, whose lines do not tell which, the rank and node that the
// launcher names as the one that failed. Where it saw several end alike nobody is named.
void name_whom_launcher_saw(const Case& of, Hypotheses& hypotheses);

}  // namespace shanty
