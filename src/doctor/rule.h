#pragma once

#include <cstddef>
#include <vector>

#include "doctor/case.h"
#include "doctor/timeouts.h"

namespace shanty {

using Hypotheses = std::vector<Hypothesis>;

// A class of failure (rules/<class>.cc defines `void <class>_rule(const Case&, Hypotheses&)`): adds
// what it finds in the case. It sees no other rule's findings; weigh() puts them in order.
using Rule = void (*)(const Case& of, Hypotheses& out);

// Generated from the file names.
extern const Rule kRules[];
extern const size_t kRuleCount;

}  // namespace shanty
