#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ckpt/memory_vfs.h"
#include "ckpt/peer_server.h"
#include "ckpt/rank_store.h"
#include "ckpt/reader.h"

namespace shanty::ckpt {

// The slot of each rank of a world, here or at another engine.
struct MemoryPlace {
  std::string root;
  SlotId id;
  std::map<int, Snapshot> here;   // by rank
  std::map<int, Peer> elsewhere;  // likewise
};

// A checkpoint in slots, read like one on storage: with checksums, taken when this is made.
class MemorySource {
 public:
  static Result<std::unique_ptr<MemorySource>> open(MemoryPlace place);
  CheckpointReader& reader() { return *reader_; }

 private:
  Status add_here(const Snapshot& snapshot, SlotFacts& facts);
  Status add_elsewhere(int rank, const Peer& peer, SlotFacts& facts);

  MemoryPlace place_;  // keeps the slots alive
  std::map<int, std::string> states_;
  std::map<std::string, std::unique_ptr<PeerReader>> peers_;  // by address
  std::string manifest_;
  MemoryVfs vfs_;
  std::unique_ptr<CheckpointReader> reader_;
};

}  // namespace shanty::ckpt
