#pragma once

#include "gang/coordinator_turn.h"

namespace shanty::gang {

// Node ranks and their holders. A holder keeps its rank while it lives; one that is dead, or whose
// connection is closed while another asks for the same rank, loses it.

// Gives `m` a node rank if one is to be had. False = it has to wait.
bool place(Turn& t, uint64_t incarnation, Member& m);
// Takes the node rank of `m` away.
void vacate(Turn& t, Member& m);
// Gives free (or takeable) node ranks to members that wait for one: fixed ones first, then first
// come.
void fill_slots(Turn& t);

}  // namespace shanty::gang
