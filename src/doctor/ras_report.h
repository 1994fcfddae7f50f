#pragma once

#include <vector>

#include "doctor/case.h"

namespace shanty {

// What reports of NCCL's RAS tell: those that stand in logs as text, then those read as JSON.
std::vector<RasParagraph> read_ras(const Case& of);

// Ranks that lag behind, of a paragraph on counts: those with the least, where they are listed.
// Empty where the report lists only who is ahead.
std::vector<int> lagging_ranks(const RasParagraph& paragraph);

// Whether a later report tells the same counts of the same ranks: they stand still.
bool stands_still(const std::vector<RasParagraph>& all, const RasParagraph& paragraph);

// Shows the paragraph's lines and blames the ranks and nodes that it lists.
void blame_listed(const RasParagraph& paragraph, Draft& draft);

}  // namespace shanty
