#pragma once

#include <vector>

#include "doctor/case.h"

namespace shanty {

// For Case::ras(): parses what the lines of `of` tell.
std::vector<RasParagraph> read_ras(const Case& of);

// Ranks that lag behind, of a paragraph on counts: those with the least, where they are listed.
// Empty where the report lists only who is ahead.
std::vector<int> lagging_ranks(const RasParagraph& paragraph);

// Whether a later report tells the same counts of the same ranks: they stand still.
bool stands_still(const std::vector<RasParagraph>& all, const RasParagraph& paragraph);

// Shows the paragraph's lines and blames the ranks and nodes that it lists.
void blame_listed(const RasParagraph& paragraph, Draft& draft);

}  // namespace shanty
