#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "ckpt/leader.h"
#include "ckpt/memory_source.h"
#include "ckpt/peer_server.h"
#include "ckpt/rank_store.h"
#include "ckpt/reader.h"
#include "ckpt/vfs.h"
#include "os/fd.h"

namespace shanty::ckpt {

// What outlives the trainers: the slots of each rank by root and rank, and the leader of each root
// whose rank 0 is here. Thread-safe.
class Stores {
 public:
  explicit Stores(Vfs& vfs) : vfs_(vfs) {}
  // Ends the leader of the generation before. False: it goes on ending after `limit`, since its
  // storage hangs, and nobody may take its place yet.
  bool end_leader(const std::string& root, Duration limit);
  void set_leader(const std::string& root, std::unique_ptr<Leader> leader);
  // A committed checkpoint on storage, opened once for all ranks of this engine: a chunk that one
  // of them has read and checked is not checked again, and lies in the kernel's cache.
  Result<std::shared_ptr<CheckpointReader>> open(const std::string& directory);
  // The same of a save in slots, named `name`: their checksums are taken once.
  Result<std::shared_ptr<MemorySource>> open_memory(const std::string& name, MemoryPlace place);
  // Waits for all saves, at most that long, then for the leaders' end.
  void finish(Duration limit);
  std::shared_ptr<RankStore> of(const std::string& root, int rank);
  // Everything that is whole in memory of the checkpoints of `root`.
  std::vector<Snapshot> snapshots(const std::string& root);
  // Of all files that this engine writes together; that of the newest hello.
  RateLimit& limit() { return limit_; }
  // Through which other engines read the slots; the first call starts it.
  Result<Peer> peer(bool loopback);

 private:
  static std::shared_future<void> begin_end(std::unique_ptr<Leader> leader);

  Vfs& vfs_;
  RateLimit limit_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::shared_ptr<RankStore>> stores_;  // shared: sessions
  std::map<std::string, std::unique_ptr<Leader>> leaders_;
  std::map<std::string, std::shared_future<void>> ending_;  // by root, shared with their threads
  std::map<bool, std::unique_ptr<PeerServer>> peers_;       // by whether on loopback
  // Held while a source is opened, which takes as long as storage or other engines take to answer.
  std::mutex opening_;
  std::map<std::string, std::weak_ptr<CheckpointReader>> readers_;  // by directory
  std::map<std::pair<std::string, std::string>, std::weak_ptr<MemorySource>> memories_;
};

// Talks to one trainer until it hangs up (docs/formats/checkpoint-engine.md). Blocks.
void run_session(Vfs& vfs, Stores& stores, Fd connection);

}  // namespace shanty::ckpt
