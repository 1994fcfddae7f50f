#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/flight/id_map.h"

namespace shanty::flight {

inline constexpr uint32_t kNoId = IdMap::kNone;

// One record of one rank, small because there may be tens of millions.
struct Entry {
  int64_t created_unix_ns = 0;
  uint32_t seq = 0;  // of the collective in its group, or of the send or receive
  uint32_t group = 0;
  uint32_t call = 0;
  uint32_t stack : 24 = 0;  // 0: none
  uint32_t state : 2 = 0;   // State
  uint32_t retired : 1 = 0;
  uint32_t p2p : 1 = 0;
};
static_assert(sizeof(Entry) == 32 || sizeof(Entry) == 24);

enum State : uint32_t { kScheduled = 0, kStarted = 1, kCompleted = 2 };

// An operation with its shapes, as many entries have it.
struct Call {
  std::string backend;  // "nccl"
  std::string op;       // "all_reduce", "send"
  int source = -1;      // of send and recv: ranks within the group; -1 = any
  int target = -1;
  std::string shapes;       // "[[1024]] Float -> [[1024]] Float"
  uint64_t numel = 0;       // of the inputs, else of the outputs
  uint64_t match_hash = 0;  // equal for calls that may stand for one collective
};

// A process group. Groups of one name and other members are others.
struct Group {
  std::string name;
  std::string desc;
  std::vector<int> ranks;  // global, in the group's order; those seen where not `known`
  bool known = false;

  // "default_pg", "TP 3".
  std::string title() const;
};

// What was told of a group beside the entries; 0 = nothing.
struct GroupStatus {
  uint32_t last_enqueued = 0;
  uint32_t last_completed = 0;
};

// One dump.
struct RankTrace {
  int rank = -1;
  std::string file;
  std::string version;
  bool wrapped = false;  // the ring had lost its first entries
  int64_t file_unix_ns = 0;
  std::vector<Entry> entries;  // oldest first
  std::map<uint32_t, GroupStatus> status;
  std::vector<uint32_t> configured_groups;
  bool too_many_calls = false;
};

struct Frame {
  std::string name;
  std::string file;
  int line = 0;
};

// What the dumps of one job share, each thing once. Safe for several threads while loading.
class Tables {
 public:
  static constexpr size_t kMaxCalls = size_t{1} << 21;
  static constexpr size_t kMaxStacks = (size_t{1} << 24) - 1;

  Tables();
  uint32_t add_call(Call call);
  uint32_t add_group(std::string_view name, std::string_view desc, std::string_view ranks);
  // "frame" of the user's own program: the innermost that is not torch's.
  uint32_t add_stack(const std::vector<Frame>& frames);

  const Call& call(uint32_t id) const { return calls_[id]; }
  const Group& group(uint32_t id) const { return groups_[id]; }
  Group& group(uint32_t id) { return groups_[id]; }
  size_t group_count() const { return groups_.size(); }
  // "train.py:23 in step"; "" where there is none.
  const std::string& place(uint32_t stack) const { return places_[stack]; }

 private:
  std::mutex mutex_;
  std::vector<Call> calls_;
  IdMap call_ids_;
  std::vector<Group> groups_;
  IdMap group_ids_;
  std::vector<std::string> places_;  // [0] is ""
  IdMap place_ids_;
};

}  // namespace shanty::flight
