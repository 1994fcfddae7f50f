#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causes/finding.h"
#include "doctor/flight/load.h"

namespace shanty::flight {

// PyTorch Flight Recorder dumps -> who did not come to which collective, and why. Sets of dumps are
// told apart by their names; each has its findings. Nothing of a dump is executed.
std::vector<Finding> diagnose_flight(std::span<const FlightFile> files, unsigned threads = 0);

// The findings of one set.
std::vector<Finding> diagnose_set(DumpSet& set, unsigned threads = 0);

inline constexpr size_t kMaxFlightFindings = 24;  // of one set; the rest is counted
inline constexpr size_t kMaxNamedRanks = 16;      // in a message; evidence names as many

}  // namespace shanty::flight
