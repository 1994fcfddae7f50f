#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <sys/types.h>

#include "base/clock.h"
#include "base/result.h"
#include "ckpt/arena.h"
#include "ckpt/channel.h"
#include "ckpt/layout.h"
#include "ckpt/store.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// What a rank stores and where each byte of it lies.
struct RankLayout {
  uint64_t number = 0;
  std::vector<PieceSpec> specs;
  std::vector<size_t> pulls;  // indexes of specs that the engine copies itself
  std::map<std::string, std::string> aliases;
  Layout layout;
};

// The tensors of a layout as a receipt tells them; its files have no checksums yet.
Receipt make_receipt(const RankLayout& layout, int rank);

// Where the state of a rank that is no tensor lies in a checkpoint.
std::string state_path(int rank);

// A save. A step may be saved again, with other bytes, by a later generation and by the same.
struct SlotId {
  uint64_t step = 0;
  uint64_t generation = 0;
  uint64_t number = 0;  // greater than that of any save before, the same for all ranks
  bool operator==(const SlotId&) const = default;
  // By when they were begun: a run may be taken back to an older step.
  auto operator<=>(const SlotId& other) const {
    return std::tie(generation, number, step) <=>
           std::tie(other.generation, other.number, other.step);
  }
};

// One filled slot. Outlives the trainer that filled it.
struct SlotContent {
  std::shared_ptr<Arena> arena;  // shared with the trainer's later layouts
  int slot = 0;
  std::shared_ptr<const RankLayout> layout;
  SlotId id;
  int world_size = 1;
  std::string state_json;   // this rank's
  std::string global_json;  // the same on all ranks
};

// A save of one rank in the memory of this engine, its own or a copy of a neighbour's. Immutable.
struct Snapshot {
  SlotId id;
  int rank = 0;
  int world_size = 1;
  std::string state_json;
  std::string global_json;
  Receipt receipt;  // of the tensors' files; checksums are there in a copy only
  std::vector<std::pair<std::string, std::string_view>> files;  // path, bytes
  std::shared_ptr<const void> memory;                           // shared: keeps the bytes alive
};

// Where another engine answers for its slots.
struct Peer {
  std::string host;
  uint16_t port = 0;
  std::string token;
};

struct SaveStatus {
  SlotId id;
  SlotState state = SlotState::kFilling;
  std::string error;
  double copy_seconds = 0;
  double durable_seconds = 0;  // from `save` to committed
};

// The slots of one rank of a job and its saves. Thread-safe.
class RankStore {
 public:
  RankStore(Vfs& vfs, std::string root, int rank)
      : vfs_(vfs), root_(std::move(root)), rank_(rank) {}
  ~RankStore();

  // For another trainer of this rank: gives up what is being written, as its generation has ended,
  // and forgets its layout, so that it can begin nothing any more. What was copied stays. Waits up
  // to `limit` for storage that hangs; what is written there then is never committed.
  void take_over(Duration limit);

  // A new layout has new slots; what the old ones hold stays until it is replaced.
  Result<std::shared_ptr<const RankLayout>> set_layout(std::vector<PieceSpec> specs,
                                                       std::vector<size_t> pulls,
                                                       std::map<std::string, std::string> aliases);
  std::shared_ptr<Arena> arena() const;

  // A slot of that layout to fill. Waits while both are being copied or written.
  Result<int> begin(uint64_t layout, uint64_t step, Duration limit);

  struct Request {
    uint64_t layout = 0;
    int slot = 0;
    SlotId id;
    pid_t pid = 0;                    // of the trainer
    std::vector<uint64_t> addresses;  // one per pull
    int world_size = 1;
    std::string state_json;
    std::string global_json;
    bool pin = false;
    int threads = 2;
    RateLimit* limit = nullptr;              // outlives the save
    std::shared_ptr<ChannelClient> channel;  // shared with the session
    std::string node;                        // where this engine is
    Peer self;                               // how others reach it
  };
  // Goes on in the background.
  Status save(Request request);

  // Waits until the save of that step and number, 0 for the newest of the step, has reached `state`
  // or failed; an error when there is none.
  Result<SaveStatus> wait(uint64_t step, uint64_t number, SlotState state, Duration limit);

  // What this rank copied for that save is spoiled: it is forgotten and not written any further,
  // nor are the copies kept that belong to it.
  void spoil(SlotId id);
  // Those of late, so that no other engine's part of them is taken for one of a whole save.
  std::vector<SlotId> spoiled() const;

  // Waits for what is being written; false when it took longer.
  bool finish_saves(Duration limit);

  // What is whole in memory: this rank's, and the copies that it keeps of others'.
  std::vector<Snapshot> snapshots() const;

 private:
  struct Job;
  void cancel_all();  // with the mutex held
  void run(const std::shared_ptr<Job>& job);
  Status copy(Job& job);
  void keep(Job& job);
  // As it is copied. An error, of the copy too, is told to the other ranks.
  Status write(Job& job);
  Status write_files(Job& job, const nlohmann::json& place, Receipt& receipt);
  Status keep_neighbours_copy(const Job& job);
  LinkSource committed() const;
  void note_committed(LinkSource source, const RankLayout& layout);
  void set(Job& job, SlotState state, const std::string& error = "");
  bool is_spoiled(SlotId id) const;

  Vfs& vfs_;
  const std::string root_;
  const int rank_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<const RankLayout> layout_;
  uint64_t layouts_ = 0;
  bool busy_[kSlots] = {};
  bool begin_timed_out_ = false;
  std::vector<SlotContent> contents_;  // newest first
  std::vector<Snapshot> copies_;       // likewise
  LinkSource committed_;               // the newest one's files of what is still
  std::deque<SlotId> spoiled_;         // newest last
  uint64_t begun_ = 0;
  std::map<uint64_t, SaveStatus> saves_;       // by the order in which they began
  std::vector<std::shared_ptr<Job>> running_;  // shared with their threads
};

}  // namespace shanty::ckpt
