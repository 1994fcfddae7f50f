#include "ckpt/memory_source.h"

#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "ckpt/store.h"
#include "net/address.h"

namespace shanty::ckpt {
namespace {

constexpr const char* kDirectory = "/memory/";

}  // namespace

Status MemorySource::add_here(const Snapshot& snapshot, SlotFacts& facts) {
  facts = make_slot_facts(snapshot);
  for (const auto& [path, bytes] : snapshot.files) vfs_.add(kDirectory + path, bytes);
  return {};
}

Status MemorySource::add_elsewhere(int rank, const Peer& peer, SlotFacts& facts) {
  auto& reader = peers_[net::join_host_port(peer.host, peer.port)];
  if (!reader) reader = std::make_unique<PeerReader>(peer);
  const SlotName slot{.root = place_.root, .rank = rank, .id = place_.id};
  facts = TRY(reader->facts(slot));
  for (const StoredFile& file : facts.receipt.files) {
    if (file.path == state_path(rank)) continue;
    vfs_.add_remote(
        kDirectory + file.path, file.bytes,
        [slot, path = file.path, from = reader.get()](uint64_t offset, char* out, size_t size) {
          return from->fetch(slot, path, offset, out, size);
        });
  }
  return {};
}

Result<std::unique_ptr<MemorySource>> MemorySource::open(MemoryPlace place) {
  auto source = std::make_unique<MemorySource>();
  source->place_ = std::move(place);
  std::map<int, SlotFacts> all;
  for (const auto& [rank, content] : source->place_.here) {
    TRY_STATUS(source->add_here(content, all[rank]));
  }
  for (const auto& [rank, peer] : source->place_.elsewhere) {
    if (!all.contains(rank)) TRY_STATUS(source->add_elsewhere(rank, peer, all[rank]));
  }
  if (all.empty() || all.begin()->first != 0) return Error{"rank 0's slot is no longer in memory"};
  std::vector<Receipt> receipts;
  for (auto& [rank, facts] : all) {
    const std::string& state = source->states_[rank] = std::move(facts.state_json);
    source->vfs_.add(kDirectory + state_path(rank), state);
    receipts.push_back(std::move(facts.receipt));
  }
  Manifest manifest{
      .id = {.step = source->place_.id.step, .generation = source->place_.id.generation},
      .run = "memory",
      .world_size = all.at(0).world_size,
      .created_unix_ns = system_clock().unix_time_ns(),
      .files = {},
      .tensors = {},
      .aliases = {},
      .global_json = all.at(0).global_json};
  TRY_STATUS(merge_receipts(receipts, manifest));
  source->manifest_ = encode_manifest(manifest);
  source->vfs_.add(kDirectory + std::string(kManifestName), source->manifest_);
  source->reader_ = TRY(open_checkpoint(source->vfs_, "/memory"));
  return source;
}

}  // namespace shanty::ckpt
