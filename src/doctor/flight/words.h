#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "doctor/flight/analysis.h"

namespace shanty::flight {

// How findings say things.
std::string ranks_text(std::vector<int> ranks);  // "rank 5", "ranks 0-3, 7"
std::string call_text(const DumpSet& set,
                      const Entry& entry);  // "all_reduce #5 ([[32]] Float ...)"
std::string state_text(const RankTrace& trace, const Entry& entry);
// "entry 5: all_reduce #5 ..., scheduled, at train.py:29", with its place in the dump.
Evidence entry_evidence(const DumpSet& set, uint32_t rank_index, uint32_t entry);
// The last thing a rank did, in whatever group; the dump as a whole where it did nothing.
Evidence last_evidence(const DumpSet& set, uint32_t rank_index);
// "its last collective was broadcast #4 of default_pg at train.py:23, which completed".
std::string where_it_is(const DumpSet& set, uint32_t rank_index);

}  // namespace shanty::flight
