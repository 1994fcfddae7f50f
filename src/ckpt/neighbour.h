#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "ckpt/channel.h"
#include "ckpt/peer_server.h"
#include "ckpt/rank_store.h"

namespace shanty::ckpt {

// A copy of each rank's slot at an engine of another node, so that a node that dies takes no save
// with it. Nodes stand in a ring by their lowest rank; each keeps copies of the one before it, its
// ranks in turn.

struct Neighbour {
  int rank = 0;  // whose slot is to be kept
  Peer peer;
};

// Says that this rank's slot is whole and waits until all ranks have said so. nullopt: there is
// nothing for this rank to keep, as on a single node.
Result<std::optional<Neighbour>> choose_neighbour(ChannelClient& channel, SlotId id, int rank,
                                                  const std::string& node, const Peer& self);

// Says that this rank's slot will never be whole, so that nobody waits for it.
void refuse_copies(ChannelClient& channel, SlotId id);

// Reads a slot of another engine whole and checks it.
Result<Snapshot> copy_slot(const Peer& peer, const SlotName& slot);

}  // namespace shanty::ckpt
