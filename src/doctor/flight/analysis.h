#pragma once

#include <cstdint>
#include <vector>

#include "doctor/flight/load.h"
#include "doctor/flight/trace.h"

namespace shanty::flight {

// What one rank did in one group, as far as its ring remembers.
struct Seen {
  uint32_t group = 0;
  uint32_t first_seq = 0;    // the oldest collective that the ring still has; 0 = none
  uint32_t last_seq = 0;     // the newest that it joined
  uint32_t done_seq = 0;     // the newest that completed
  uint32_t pending = kNoId;  // index of the entry of the oldest that has not completed
  uint32_t done_by_retired_seq =
      0;  // completed only by the word "retired", which a timeout sets too
  uint32_t entries = 0;
  bool partial_first = false;  // the ring may have lost a part of first_seq
};

// A member of a group: its dump and what it saw there.
struct Member {
  uint32_t rank_index = 0;  // in DumpSet::ranks
  Seen seen;
};

// A send or receive that has not completed, and whose other end was not posted or differs.
struct PendingP2p {
  uint32_t rank_index = 0;
  uint32_t entry = 0;
  int peer = -1;  // global rank
  uint32_t peer_index = kNoId;
  uint32_t peer_entry = kNoId;  // its counterpart, where it was posted
};

enum class Shape { kNone, kOperation, kShapes };

// A group in which something is stuck or does not fit.
struct StuckGroup {
  uint32_t group = 0;
  uint32_t seq = 0;
  bool after_timeout = false;     // nothing is pending any more, but a rank never came
  std::vector<Member> arrived;    // joined `seq` (it may have completed there)
  std::vector<Member> absent;     // have a dump that ends before `seq`
  std::vector<int> without_dump;  // members whose dump is missing
  Shape mismatch = Shape::kNone;  // what differs at `mismatch_seq`
  uint32_t mismatch_seq = 0;
  std::vector<Member> odd;  // the fewer ones; all of them where there is no majority
  bool majority = false;
  size_t not_completed = 0;  // of arrived
  size_t not_started = 0;    // of arrived, where others have started
};

// Why a set of ranks goes nowhere.
struct Cause {
  enum class Kind { kNeverArrived, kDeadlock, kMismatch, kNetwork, kNoDump, kP2pMismatch };
  Kind kind = Kind::kNeverArrived;
  std::vector<uint32_t> ranks;   // indices of culprits in DumpSet::ranks
  std::vector<uint32_t> groups;  // indices in Analysis::stuck that show it
  std::vector<uint32_t> p2p;     // indices in Analysis::p2p
  size_t victims = 0;            // ranks that wait for them, through others too
};

struct Analysis {
  std::vector<StuckGroup> stuck;
  std::vector<PendingP2p> p2p;
  std::vector<Cause> causes;  // most victims first
  std::vector<int> missing;   // ranks of the job that have no dump
  int world_size = 0;
  int64_t newest_unix_ns = 0;  // of all entries
};

Analysis analyse(DumpSet& set, unsigned threads = 0);

// The index of the last entry of `trace` for this collective; kNoId: it is not there.
uint32_t find_collective(const RankTrace& trace, uint32_t group, uint32_t seq);

}  // namespace shanty::flight
