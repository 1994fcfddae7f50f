#include "doctor/flight/value.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace shanty::flight {
namespace {

constexpr std::array<std::pair<std::string_view, Field>, 28> kFields = {{
    {"version", Field::kVersion},
    {"rank", Field::kRank},
    {"entries", Field::kEntries},
    {"pg_config", Field::kPgConfig},
    {"pg_status", Field::kPgStatus},
    {"desc", Field::kDesc},
    {"ranks", Field::kRanks},
    {"last_enqueued_collective", Field::kLastEnqueued},
    {"last_completed_collective", Field::kLastCompleted},
    {"pg_id", Field::kPgId},
    {"process_group", Field::kProcessGroup},
    {"collective_seq_id", Field::kCollectiveSeq},
    {"p2p_seq_id", Field::kP2pSeq},
    {"profiling_name", Field::kProfilingName},
    {"input_sizes", Field::kInputSizes},
    {"input_dtypes", Field::kInputDtypes},
    {"output_sizes", Field::kOutputSizes},
    {"output_dtypes", Field::kOutputDtypes},
    {"time_created_ns", Field::kTimeCreated},
    {"timeout_ms", Field::kTimeoutMs},
    {"state", Field::kState},
    {"retired", Field::kRetired},
    {"is_p2p", Field::kIsP2p},
    {"frames", Field::kFrames},
    {"name", Field::kName},
    {"filename", Field::kFilename},
    {"line", Field::kLine},
    {"record_id", Field::kRecordId},
}};
// Version 2.0 of the dump called the number of a collective so.
constexpr std::string_view kOldSeq = "seq_id";

Field field_of(std::string_view key) {
  for (const auto& [name, field] : kFields) {
    if (name == key) return field;
  }
  return key == kOldSeq ? Field::kCollectiveSeq : Field::kOther;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = mix(0x5348414E5459ULL, bytes.size());
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash, word);
    bytes.remove_prefix(8);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  return mix(mix(hash, rest), 0xFF);
}

Value ValueTree::string(std::string_view text, Kind kind) {
  const uint64_t hash = hash_bytes(text);
  uint32_t id = string_ids_.find(hash);
  if (id == IdMap::kNone) {
    id = static_cast<uint32_t>(strings_.size());
    strings_.push_back({text, hash, field_of(text)});
    string_ids_.insert(hash, id);
  }
  return {kind, id, static_cast<int64_t>(strings_[id].field)};
}

Value ValueTree::copied_string(std::string text) {
  const uint32_t id = string_ids_.find(hash_bytes(text));
  if (id == IdMap::kNone) return string(copies_.emplace_back(std::move(text)));
  return {Kind::kString, id, static_cast<int64_t>(strings_[id].field)};
}

void ValueTree::reserve(size_t count) {
  if (values_.size() < count) values_.resize(std::max(count, 2 * values_.size()));
}

void ValueTree::append(uint32_t container, std::span<const Value> values) {
  Block& block = blocks_[container];
  const size_t needed = block.count + values.size();
  if (needed > block.capacity) {
    const bool is_last = block.capacity > 0 && block.first + block.capacity == used_;
    const size_t room = block.count == 0 ? needed : std::max(needed, size_t{2} * block.capacity);
    const size_t first = is_last ? block.first : used_;
    reserve(first + room);
    if (!is_last) std::copy_n(&values_[block.first], block.count, &values_[first]);
    block.first = first;
    block.capacity = static_cast<uint32_t>(room);
    used_ = first + room;
  }
  std::copy(values.begin(), values.end(), values_.data() + block.first + block.count);
  block.count = static_cast<uint32_t>(needed);
}

void ValueTree::clear() {
  strings_.clear();
  string_ids_.clear();
  copies_.clear();
  blocks_.clear();
  used_ = 0;
}

std::string_view ValueTree::text(Value string) const {
  return string.kind == Kind::kString ? strings_[string.id].text : std::string_view();
}

Value ValueTree::get(Value dict, Field key) const {
  if (dict.kind != Kind::kDict) return {};
  const std::span<const Value> pairs = items(dict);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (field(pairs[i]) == key) return pairs[i + 1];
  }
  return {};
}

}  // namespace shanty::flight
