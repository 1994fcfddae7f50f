#include "ckpt/neighbour.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "ckpt/memory_room.h"
#include "ckpt/parallel.h"
#include "text/json_fields.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

// A rank whose copy failed never says that it is whole.
constexpr Duration kAllWholeLimit = std::chrono::seconds(60);
constexpr size_t kPieceBytes = size_t{8} << 20;
constexpr int kFetchThreads = 4;

struct Node {
  std::string name;
  std::vector<Neighbour> ranks;  // ascending
};

Result<std::vector<Node>> nodes_of(const std::string& answer) {
  const auto parsed = parse_json(answer);
  const json* ranks = parsed && parsed->is_object() ? json_array(*parsed, "ranks") : nullptr;
  if (ranks == nullptr) return Error{"rank 0's engine answered no JSON"};
  std::vector<Node> nodes;
  for (const json& one : *ranks) {
    if (!one.is_object()) continue;
    const std::string name = json_string(one, "node");
    auto node = std::find_if(nodes.begin(), nodes.end(),
                             [&](const Node& known) { return known.name == name; });
    if (node == nodes.end()) node = nodes.insert(nodes.end(), Node{.name = name, .ranks = {}});
    node->ranks.push_back({.rank = json_int(one, "rank"),
                           .peer = {.host = json_string(one, "host"),
                                    .port = static_cast<uint16_t>(json_int(one, "port")),
                                    .token = json_string(one, "token")}});
  }
  return nodes;
}

// By several connections at once: one thread cannot encrypt as fast as networks are.
Status fetch_file(PeerReader& reader, const SlotName& slot, const std::string& file,
                  std::string& bytes) {
  std::mutex mutex;
  Status first;
  const size_t pieces = (bytes.size() + kPieceBytes - 1) / kPieceBytes;
  for_each_parallel(pieces, kFetchThreads, [&](size_t i) {
    const size_t offset = i * kPieceBytes;
    const size_t size = std::min(kPieceBytes, bytes.size() - offset);
    Status status = reader.fetch(slot, file, offset, bytes.data() + offset, size);
    const std::lock_guard lock(mutex);
    if (!status && first) first = std::move(status);
    return first.ok();
  });
  return first;
}

std::string key_of(SlotId id) { return fmt::format("{}.{}.{}", id.step, id.generation, id.number); }

}  // namespace

void refuse_copies(ChannelClient& channel, SlotId id) {
  const json body{{"failed", true}};
  discard(channel.ask("copied", key_of(id), print_json(body), kAllWholeLimit),
          "an error is the answer");
}

Result<std::optional<Neighbour>> choose_neighbour(ChannelClient& channel, SlotId id, int rank,
                                                  const std::string& node, const Peer& self) {
  const json body{{"node", node}, {"host", self.host}, {"port", self.port}, {"token", self.token}};
  const std::string answer =
      TRY(channel.ask("copied", key_of(id), print_json(body), kAllWholeLimit));
  const auto nodes = TRY(nodes_of(answer));
  if (nodes.size() < 2) return std::optional<Neighbour>();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& mine = nodes[i].ranks;
    const auto me = std::find_if(mine.begin(), mine.end(),
                                 [&](const Neighbour& one) { return one.rank == rank; });
    if (me == mine.end()) continue;
    const auto& before = nodes[(i + nodes.size() - 1) % nodes.size()].ranks;
    const auto place = static_cast<size_t>(me - mine.begin());
    if (place < before.size()) return std::optional<Neighbour>(before[place]);
  }
  return std::optional<Neighbour>();
}

Result<Snapshot> copy_slot(const Peer& peer, const SlotName& slot) {
  PeerReader reader(peer);
  SlotFacts facts = TRY(reader.facts(slot));
  const auto memory = std::make_shared<std::map<std::string, std::string>>();
  Snapshot copy{.id = slot.id,
                .rank = slot.rank,
                .world_size = facts.world_size,
                .state_json = std::move(facts.state_json),
                .global_json = std::move(facts.global_json),
                .receipt = std::move(facts.receipt),
                .files = {},
                .memory = memory};
  std::erase_if(copy.receipt.files,
                [&](const StoredFile& file) { return file.path == state_path(slot.rank); });
  uint64_t size = 0;
  for (const StoredFile& file : copy.receipt.files) size += file.bytes;
  const MemoryPromise promise = TRY(
      MemoryPromise::make(size, fmt::format("keeping a copy of rank {}'s checkpoint", slot.rank)));
  for (const StoredFile& file : copy.receipt.files) {
    std::string& bytes = (*memory)[file.path];
    bytes.resize(file.bytes);
    TRY_STATUS(fetch_file(reader, slot, file.path, bytes));
    if (chunk_checksums(bytes) != file.crc32c) {
      return Error{fmt::format("the copy of rank {}'s {} does not match its checksums", slot.rank,
                               file.path)};
    }
    copy.files.emplace_back(file.path, bytes);
  }
  return copy;
}

}  // namespace shanty::ckpt
