#pragma once

#include <vector>

#include "doctor/rule.h"

namespace shanty {

// What a consequence keeps of its confidence beside a cause that explains it.
inline constexpr double kConsequence = 0.4;
// From here on a finding counts as an explanation of others.
inline constexpr double kExplains = 0.6;

// The verdict: the most likely cause first, equal causes together, consequences behind and no
// louder than info.
std::vector<Finding> weigh(Hypotheses hypotheses);

}  // namespace shanty
