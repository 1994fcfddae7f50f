#include "doctor/flight/dump.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "doctor/flight/entry_pattern.h"
#include "doctor/flight/json_dump.h"
#include "doctor/flight/pickle.h"

namespace shanty::flight {
namespace {

constexpr size_t kMaxPatterns = 16;
constexpr size_t kMaxKnown = 65'536;

int64_t to_int(const ValueTree& tree, Value value, int64_t fallback) {
  if (value.kind == Kind::kInt) return value.number;
  int64_t number = fallback;
  const std::string_view text = tree.text(value);  // JSON tells some numbers as strings
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_true(Value value) { return value.kind == Kind::kBool && value.number != 0; }

uint32_t to_seq(int64_t number) {
  return static_cast<uint32_t>(std::clamp<int64_t>(number, 0, kNoId - 1));
}

uint32_t to_seq(const ValueTree& tree, Value value) { return to_seq(to_int(tree, value, 0)); }

int to_rank(std::string_view text) {
  int rank = -1;
  std::from_chars(text.data(), text.data() + text.size(), rank);
  return rank;
}

// The values of an entry that count, as they stand in the file.
struct RawEntry {
  Value group;
  Value pg_id;
  Value collective_seq;
  Value p2p_seq;
  Value name;
  Value input_sizes;
  Value input_dtypes;
  Value output_sizes;
  Value output_dtypes;
  Value created;
  Value state;
  Value retired;
  Value is_p2p;
  Value frames;
  Value record_id;
};

RawEntry raw_entry(const ValueTree& tree, std::span<const Value> pairs) {
  RawEntry raw;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const Value value = pairs[i + 1];
    switch (tree.field(pairs[i])) {
      case Field::kProcessGroup:
        raw.group = value;
        break;
      case Field::kPgId:
        raw.pg_id = value;
        break;
      case Field::kCollectiveSeq:
        raw.collective_seq = value;
        break;
      case Field::kP2pSeq:
        raw.p2p_seq = value;
        break;
      case Field::kProfilingName:
        raw.name = value;
        break;
      case Field::kInputSizes:
        raw.input_sizes = value;
        break;
      case Field::kInputDtypes:
        raw.input_dtypes = value;
        break;
      case Field::kOutputSizes:
        raw.output_sizes = value;
        break;
      case Field::kOutputDtypes:
        raw.output_dtypes = value;
        break;
      case Field::kTimeCreated:
        raw.created = value;
        break;
      case Field::kState:
        raw.state = value;
        break;
      case Field::kRetired:
        raw.retired = value;
        break;
      case Field::kIsP2p:
        raw.is_p2p = value;
        break;
      case Field::kFrames:
        raw.frames = value;
        break;
      case Field::kRecordId:
        raw.record_id = value;
        break;
      default:
        break;
    }
  }
  return raw;
}

// [[2, 3], [4]] and dtypes as one hash, with an end to every walk.
uint64_t hash_sizes(const ValueTree& tree, Value sizes, uint64_t hash) {
  size_t budget = kMaxTensors;
  for (const Value& tensor : tree.items(sizes)) {
    hash = mix(hash, 0x5B);
    for (const Value& size : tree.items(tensor)) {
      if (budget-- == 0) return hash;
      hash = mix(hash, static_cast<uint64_t>(size.number));
    }
    if (budget == 0) return hash;
    --budget;
  }
  return mix(hash, 0x5D);
}

uint64_t hash_dtypes(const ValueTree& tree, Value dtypes, uint64_t hash) {
  size_t budget = kMaxTensors;
  for (const Value& dtype : tree.items(dtypes)) {
    if (budget-- == 0) break;
    if (dtype.kind == Kind::kString) hash = mix(hash, tree.hash(dtype));
  }
  return mix(hash, 0x5E);
}

uint64_t numel_of(const ValueTree& tree, Value sizes) {
  uint64_t sum = 0;
  size_t budget = kMaxTensors;
  for (const Value& tensor : tree.items(sizes)) {
    uint64_t product = 1;
    for (const Value& size : tree.items(tensor)) {
      if (budget-- == 0) return sum;
      product *= static_cast<uint64_t>(size.number);  // wraps for nonsense, which is harmless
    }
    sum += product;
    if (budget == 0) return sum;
    --budget;
  }
  return sum;
}

std::string sizes_text(const ValueTree& tree, Value sizes, Value dtypes) {
  std::string text = "[";
  for (const Value& tensor : tree.items(sizes)) {
    if (text.size() > kMaxShapeBytes) return text + "...";
    text += text.size() > 1 ? ", [" : "[";
    bool first = true;
    for (const Value& size : tree.items(tensor)) {
      if (text.size() > kMaxShapeBytes) return text + "...";
      text += fmt::format("{}{}", first ? "" : ", ", size.number);
      first = false;
    }
    text += ']';
  }
  text += ']';
  const auto names = tree.items(dtypes);
  if (!names.empty()) text += ' ' + std::string(tree.text(names.front()).substr(0, 32));
  return text;
}

// How much of the shapes must be equal on all ranks.
enum class Fit { kBoth, kInputs, kOutputs, kDtypes, kNothing };

Fit fit_of(std::string_view op) {
  if (op == "gather") return Fit::kInputs;
  if (op == "scatter") return Fit::kOutputs;
  if (op.starts_with("all_to_all") || op.ends_with("_v")) return Fit::kDtypes;
  if (op == "send" || op == "recv" || op == "coalesced" || op == "barrier") return Fit::kNothing;
  return Fit::kBoth;
}

Call call_of(const ValueTree& tree, const RawEntry& raw) {
  Call call;
  const std::string_view name = tree.text(raw.name);
  const size_t colon = name.rfind(':');
  std::string_view op = colon == std::string_view::npos ? name : name.substr(colon + 1);
  if (colon != std::string_view::npos) call.backend = std::string(name.substr(0, colon));
  if (const size_t space = op.find(' '); space != std::string_view::npos) {
    const std::string_view peers = op.substr(space + 1);
    op = op.substr(0, space);
    const size_t arrow = peers.find("->");
    const size_t back = peers.find("<-");
    if (arrow != std::string_view::npos) {
      call.source = to_rank(peers.substr(0, arrow));
      call.target = to_rank(peers.substr(arrow + 2));
    } else if (back != std::string_view::npos) {
      call.target = to_rank(peers.substr(0, back));
      call.source = to_rank(peers.substr(back + 2));
    }
  }
  call.op = std::string(op.substr(0, 64));
  call.shapes = sizes_text(tree, raw.input_sizes, raw.input_dtypes) + " -> " +
                sizes_text(tree, raw.output_sizes, raw.output_dtypes);
  call.numel = numel_of(tree, raw.input_sizes);
  if (call.numel == 0) call.numel = numel_of(tree, raw.output_sizes);

  const Fit fit = fit_of(op);
  uint64_t hash = hash_bytes(op);
  if (fit == Fit::kBoth || fit == Fit::kInputs) hash = hash_sizes(tree, raw.input_sizes, hash);
  if (fit == Fit::kBoth || fit == Fit::kOutputs) hash = hash_sizes(tree, raw.output_sizes, hash);
  if (fit != Fit::kNothing && fit != Fit::kOutputs) {
    hash = hash_dtypes(tree, raw.input_dtypes, hash);
  }
  if (fit != Fit::kNothing && fit != Fit::kInputs) {
    hash = hash_dtypes(tree, raw.output_dtypes, hash);
  }
  call.match_hash = hash;
  return call;
}

State state_of(std::string_view text) {
  if (text == "completed") return kCompleted;
  return text == "started" ? kStarted : kScheduled;
}

// Turns entries into small ones as they come; what they share is put into the tables once a file.
class Builder : public EntrySink {
 public:
  Builder(const ValueTree& tree, Tables& tables, RankTrace& out)
      : tree_(tree), tables_(tables), out_(out) {}

  void on_entry(std::span<const Value> pairs, const Place& place) override {
    if (out_.entries.size() == kMaxEntries) return;
    const RawEntry raw = raw_entry(tree_, pairs);
    Entry entry;
    entry.p2p = is_true(raw.is_p2p) ? 1 : 0;
    entry.seq = to_seq(tree_, entry.p2p != 0 ? raw.p2p_seq : raw.collective_seq);
    entry.group = group_of(raw);
    entry.call = call_id(raw);
    entry.stack = stack_id(raw.frames) & 0xFFFFFF;
    entry.state = state_of(tree_.text(raw.state)) & 3U;
    entry.retired = is_true(raw.retired) ? 1 : 0;
    entry.created_unix_ns = to_int(tree_, raw.created, 0);
    if (out_.entries.empty()) out_.wrapped = to_int(tree_, raw.record_id, 0) > 0;
    out_.entries.push_back(entry);
    if (!place.bytes.empty()) remember(entry, place);
  }

  size_t take_known(std::string_view rest) override {
    if (out_.entries.size() == kMaxEntries) return 0;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      const size_t at = (newest_ + i) % patterns_.size();
      const EntryPattern& pattern = patterns_[at];
      if (!pattern.fits(rest.data(), rest.size())) continue;
      const uint32_t known = known_ids_.find(pattern.context(rest.data()));
      if (known == kNoId) return 0;
      newest_ = at;
      Entry& entry = out_.entries.emplace_back(known_[known]);
      entry.seq = to_seq(entry.p2p != 0 ? pattern.p2p_seq(rest.data())
                                        : pattern.collective_seq(rest.data()));
      entry.created_unix_ns = pattern.created(rest.data());
      return pattern.size();
    }
    return 0;
  }

  void forget_known() override {
    patterns_.clear();
    known_ids_.clear();
    known_.clear();
  }

  // After the whole file was read. Puts the groups' own numbers in place of these of the file.
  void finish(Value root) {
    out_.version = std::string(tree_.text(tree_.get(root, Field::kVersion)).substr(0, 32));
    if (const Value rank = tree_.get(root, Field::kRank); rank.kind == Kind::kInt) {
      if (rank.number >= 0 && rank.number < int64_t{kMaxGroupRanks}) {
        out_.rank = static_cast<int>(rank.number);
      }
    }
    read_groups(root);
    for (Entry& entry : out_.entries) entry.group = groups_[entry.group].id;
    read_status(root);
  }

 private:
  struct LocalGroup {
    Value name;
    Value desc;
    int64_t pg_id = -1;
    uint32_t id = 0;
  };

  // Patterns and contexts beyond their limits are read the long way.
  void remember(const Entry& entry, const Place& place) {
    const char* at = place.bytes.data();
    const size_t size = place.bytes.size();
    auto pattern = std::find_if(patterns_.begin(), patterns_.end(), [&](const EntryPattern& p) {
      return p.size() == size && p.fits(at, place.room);
    });
    if (pattern == patterns_.end()) {
      if (patterns_.size() == kMaxPatterns) return;
      auto made = EntryPattern::make(place.bytes, place.memo);
      if (!made) return;
      patterns_.push_back(std::move(*made));
      pattern = patterns_.end() - 1;
    }
    const uint64_t context = pattern->context(at);
    if (known_.size() == kMaxKnown || known_ids_.find(context) != kNoId) return;
    known_ids_.insert(context, static_cast<uint32_t>(known_.size()));
    known_.push_back(entry);
  }

  uint32_t group_of(const RawEntry& raw) {
    const auto names = tree_.items(raw.group);
    const Value name = names.empty() ? raw.group : names[0];
    const Value desc = names.size() > 1 ? names[1] : Value();
    const int64_t pg_id = to_int(tree_, raw.pg_id, -1);
    const uint64_t key = mix(mix(mix(1, name.id), desc.id), static_cast<uint64_t>(pg_id));
    uint32_t at = group_ids_.find(key);
    if (at == kNoId) {
      at = static_cast<uint32_t>(groups_.size());
      groups_.push_back({name, desc, pg_id, 0});
      group_ids_.insert(key, at);
    }
    return at;
  }

  uint32_t call_id(const RawEntry& raw) {
    uint64_t key = mix(7, raw.name.id);
    key = hash_sizes(tree_, raw.input_sizes, key);
    key = hash_dtypes(tree_, raw.input_dtypes, key);
    key = hash_sizes(tree_, raw.output_sizes, key);
    key = hash_dtypes(tree_, raw.output_dtypes, key);
    uint32_t id = call_ids_.find(key);
    if (id == kNoId) {
      id = tables_.add_call(call_of(tree_, raw));
      call_ids_.insert(key, id);
      out_.too_many_calls |= id == 0;
    }
    return id;
  }

  uint32_t stack_id(Value frames) {
    const auto list = tree_.items(frames);
    if (list.empty()) return 0;
    uint64_t key = 11;
    for (size_t i = 0; i < std::min(list.size(), kMaxFrames); ++i) key = mix(key, list[i].id);
    uint32_t id = stack_ids_.find(key);
    if (id != kNoId) return id;
    std::vector<Frame> stack;
    for (size_t i = 0; i < std::min(list.size(), kMaxFrames); ++i) {
      stack.push_back(
          {std::string(tree_.text(tree_.get(list[i], Field::kName)).substr(0, 128)),
           std::string(tree_.text(tree_.get(list[i], Field::kFilename)).substr(0, 512)),
           static_cast<int>(to_int(tree_, tree_.get(list[i], Field::kLine), 0) & 0x7FFFFFFF)});
    }
    id = tables_.add_stack(stack);
    stack_ids_.insert(key, id);
    return id;
  }

  // Members are listed by name; the default group may lie there under an empty one.
  std::string_view ranks_of(Value config, const LocalGroup& group) const {
    std::string_view unnamed;
    const auto pairs = tree_.items(config);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view ranks = tree_.text(tree_.get(pairs[i + 1], Field::kRanks));
      if (tree_.text(pairs[i]) == tree_.text(group.name)) return ranks;
      if (tree_.text(pairs[i]).empty()) unnamed = ranks;
    }
    return tree_.text(group.desc) == "default_pg" ? unnamed : std::string_view();
  }

  void read_groups(Value root) {
    const Value config = tree_.get(root, Field::kPgConfig);
    for (LocalGroup& group : groups_) {
      group.id = tables_.add_group(tree_.text(group.name), tree_.text(group.desc),
                                   ranks_of(config, group));
    }
    const auto pairs = tree_.items(config);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view name = tree_.text(pairs[i]);
      if (name.empty()) continue;  // seen under the name of its entries
      out_.configured_groups.push_back(
          tables_.add_group(name, tree_.text(tree_.get(pairs[i + 1], Field::kDesc)),
                            tree_.text(tree_.get(pairs[i + 1], Field::kRanks))));
    }
  }

  void read_status(Value root) {
    const auto pairs = tree_.items(tree_.get(root, Field::kPgStatus));
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const int64_t pg_id = to_int(tree_, pairs[i], -1);
      const auto group = std::find_if(groups_.begin(), groups_.end(),
                                      [&](const LocalGroup& g) { return g.pg_id == pg_id; });
      if (group == groups_.end()) continue;
      out_.status[group->id] = {
          to_seq(tree_, tree_.get(pairs[i + 1], Field::kLastEnqueued)),
          to_seq(tree_, tree_.get(pairs[i + 1], Field::kLastCompleted)),
      };
    }
  }

  const ValueTree& tree_;
  Tables& tables_;
  RankTrace& out_;
  std::vector<EntryPattern> patterns_;
  size_t newest_ = 0;  // the pattern that fitted last
  IdMap known_ids_;    // by context
  std::vector<Entry> known_;
  std::vector<LocalGroup> groups_;
  IdMap group_ids_;
  IdMap call_ids_;
  IdMap stack_ids_;
};

}  // namespace

Result<RankTrace> DumpReader::read(std::string_view bytes) {
  tree_.clear();
  RankTrace trace;
  Builder builder(tree_, tables_, trace);
  const auto root = looks_like_pickle(bytes) ? read_pickle(bytes, tree_, builder)
                                             : read_json_dump(bytes, tree_, builder);
  if (!root) return root.error();
  if (tree_.get(*root, Field::kEntries).kind == Kind::kNone &&
      tree_.get(*root, Field::kPgStatus).kind == Kind::kNone) {
    return Error{"this is not a Flight Recorder dump: it has neither entries nor pg_status"};
  }
  builder.finish(*root);
  return trace;
}

bool looks_like_dump(std::string_view head) {
  const bool pickle = looks_like_pickle(head);
  const size_t start = head.find_first_not_of(" \t\r\n");
  const bool json = start != std::string_view::npos && head[start] == '{';
  if (!pickle && !json) return false;
  // The keys of the first bytes, in the order of either form.
  for (const char* key : {"pg_config", "pg_status", "comm_lib_version", "nccl_comm_state",
                          "profiling_name", "collective_seq_id", "nccl_version"}) {
    if (head.find(key) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace shanty::flight
