#pragma once

#include "gang/coordinator_turn.h"

namespace shanty::gang {

// A coordinator keeps no truth of its own: after its death the next life adopts what the agents
// say is running, and decides nothing before all that can speak have spoken.

// Begins to listen.
void begin_recovery(Turn& t);
// Gives agents their full time to speak again: this process itself was stopped meanwhile.
void listen_anew(Turn& t);
// Takes in what `m` says about an earlier life's generation; begins to listen if that is news.
void consider_recovery(Turn& t, Member& m);
// Adopts the newest generation once every node rank speaks of it, or when the time to listen is
// over. True when it moved to another phase.
bool conclude_recovery(Turn& t);

}  // namespace shanty::gang
