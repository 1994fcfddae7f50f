#pragma once

#include "gang/coordinator_turn.h"

namespace shanty::gang {

// What the coordinator wishes of each agent right now, worked out anew each time.

// Sends `m` the present wish.
void send_wish(Turn& t, uint64_t incarnation, Member& m);
// Sends every connected agent its wish.
void send_wishes(Turn& t);

}  // namespace shanty::gang
