#pragma once

#include <set>

#include "doctor/case.h"

namespace shanty {

// Lines of Horovod's stall inspector. None where steps follow: then a rank was only late.
Records stall_lines(const Case& of);

// Ranks that it says are missing: of each tensor, in a list by rank under a headline, or all but
// those that had come. Adds the lines of such a list to `lines`.
std::set<int> missing_of_stall(const Case& of, Records& lines);

}  // namespace shanty
