#pragma once

#include <cstddef>

#include "cli/verb.h"

namespace shanty {

// Every verb, by name; generated from the files in src/cli/verbs/.
extern const Verb* const kVerbs[];
extern const size_t kVerbCount;

}  // namespace shanty
