#pragma once

#include <cstdint>
#include <vector>

#include "doctor/flight/analysis.h"

namespace shanty::flight {

// The dumps looked at once each: who did what in which group, and where calls differ.
struct Survey {
  std::vector<std::vector<Member>> members;      // by group
  std::vector<uint32_t> first_mismatch;          // by group; kNoId: all calls fit
  std::vector<std::vector<uint32_t>> p2p_tails;  // by rank index: entries that have not completed
};

// Fills in the members of groups that the dumps do not list (Group::known stays false).
Survey survey(DumpSet& set, unsigned threads);

// Whether every member must have joined this before anyone can complete it.
bool needs_all(const Call& call);

}  // namespace shanty::flight
