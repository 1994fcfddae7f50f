#pragma once

#include "gang/coordinator_turn.h"

namespace shanty::gang {

// Who is there, and who holds which node rank for the next generation.

// Takes in a report. Returns the member it came from, or nullptr when it was stale or void.
Member* hear_report(Turn& t, const Report& report);
void hear_disconnect(Turn& t, uint64_t incarnation);
// Declares members dead whose lease ran out.
void expire_leases(Turn& t);

}  // namespace shanty::gang
