#pragma once

#include "logs/log_book.h"

namespace shanty {

// What two clocks of one job may differ by before it is put right.
inline constexpr int64_t kLeastOffsetNs = 1'000'000'000;
// Where the events they share may truly be apart: a time-out comes later to whom waited later.
inline constexpr int64_t kLeastLooseOffsetNs = 120'000'000'000;

// Puts times of all nodes on one clock. The clocks (of a node in a file) are compared by events
// that several must have seen at the same moment: a communicator that is complete, a rendezvous,
// the same step, a restart, the same collective that timed out, the same peer that was gone.
// Offsets are medians over all events that two clocks share; the middle clock counts as right. What
// was moved is said in the notes.
void align_clocks(LogBook& book);

}  // namespace shanty
