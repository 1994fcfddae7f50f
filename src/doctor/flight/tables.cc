#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "doctor/flight/dump.h"
#include "doctor/flight/trace.h"
#include "doctor/flight/value.h"
#include "text/words.h"

namespace shanty::flight {
namespace {

bool is_torchs_own(std::string_view file) {
  return file.find("/torch/") != std::string_view::npos || file.starts_with("torch/") ||
         file.find("<frozen") != std::string_view::npos || file.empty() || file == "??";
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string place_of(const std::vector<Frame>& frames) {
  auto at = std::find_if(frames.begin(), frames.end(),
                         [](const Frame& frame) { return !is_torchs_own(frame.file); });
  if (at == frames.end()) at = frames.begin();
  std::string place = fmt::format("{}:{}", base_name(at->file), at->line);
  if (!at->name.empty() && at->name != "<module>") place += " in " + at->name;
  return place;
}

}  // namespace

Tables::Tables() : calls_(1), places_(1) {
  calls_[0].op = "a call";
  calls_[0].shapes = "(too many different shapes to keep)";
}

uint32_t Tables::add_call(Call call) {
  uint64_t key = mix(call.match_hash, hash_bytes(call.shapes));
  key = mix(mix(mix(key, hash_bytes(call.op)), hash_bytes(call.backend)), call.numel);
  key = mix(mix(key, static_cast<uint64_t>(call.source)), static_cast<uint64_t>(call.target));
  const std::lock_guard lock(mutex_);
  uint32_t id = call_ids_.find(key);
  if (id != kNoId) return id;
  if (calls_.size() == kMaxCalls) return 0;
  id = static_cast<uint32_t>(calls_.size());
  calls_.push_back(std::move(call));
  call_ids_.insert(key, id);
  return id;
}

uint32_t Tables::add_group(std::string_view name, std::string_view desc, std::string_view ranks) {
  const uint64_t key = mix(mix(hash_bytes(name), hash_bytes(desc)), hash_bytes(ranks));
  const std::lock_guard lock(mutex_);
  uint32_t id = group_ids_.find(key);
  if (id != kNoId) return id;
  id = static_cast<uint32_t>(groups_.size());
  Group group{std::string(name.substr(0, 128)), std::string(desc.substr(0, 128)),
              numbers_in(ranks, kMaxGroupRanks), false};
  group.known = !group.ranks.empty();
  groups_.push_back(std::move(group));
  group_ids_.insert(key, id);
  return id;
}

uint32_t Tables::add_stack(const std::vector<Frame>& frames) {
  if (frames.empty()) return 0;
  std::string place = place_of(frames);
  const uint64_t key = hash_bytes(place);
  const std::lock_guard lock(mutex_);
  uint32_t id = place_ids_.find(key);
  if (id != kNoId) return id;
  if (places_.size() == kMaxStacks) return 0;
  id = static_cast<uint32_t>(places_.size());
  places_.push_back(std::move(place));
  place_ids_.insert(key, id);
  return id;
}

std::string Group::title() const {
  if (desc.empty() || desc == "undefined") return "group " + name;
  if (desc == "default_pg") return desc;
  return fmt::format("group {} ({})", name, desc);
}

}  // namespace shanty::flight
