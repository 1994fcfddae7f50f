#include "ckpt/memory_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/hash.h"
#include "ckpt/store.h"

namespace shanty::ckpt {
namespace {

constexpr const char* kDirectory = "/memory";
constexpr size_t kHashDigits = 32;

std::map<int, SlotContent> contents_of(const std::map<int, std::shared_ptr<RankStore>>& stores,
                                       uint64_t step) {
  std::map<int, SlotContent> found;
  for (const auto& [rank, store] : stores) {
    for (SlotContent& content : store->contents()) {
      if (content.step == step) found.emplace(rank, std::move(content));
    }
  }
  return found;
}

bool is_whole(const std::map<int, SlotContent>& contents) {
  if (contents.empty()) return false;
  const auto world = static_cast<size_t>(contents.begin()->second.world_size);
  return contents.size() == world && contents.begin()->first == 0 &&
         contents.rbegin()->first == static_cast<int>(world) - 1 &&
         std::all_of(contents.begin(), contents.end(), [&](const auto& entry) {
           return entry.second.world_size == static_cast<int>(world);
         });
}

std::vector<uint32_t> chunk_checksums(std::string_view bytes) {
  std::vector<uint32_t> sums;
  for (uint64_t at = 0; at < bytes.size(); at += kChunkBytes) {
    sums.push_back(crc32c(bytes.substr(at, kChunkBytes)));
  }
  return sums;
}

}  // namespace

std::set<uint64_t> steps_in_memory(const std::map<int, std::shared_ptr<RankStore>>& stores) {
  std::set<uint64_t> candidates;
  for (const auto& [rank, store] : stores) {
    for (const SlotContent& content : store->contents()) candidates.insert(content.step);
  }
  std::erase_if(candidates, [&](uint64_t step) { return !is_whole(contents_of(stores, step)); });
  return candidates;
}

Result<std::unique_ptr<MemorySource>> MemorySource::open(
    const std::map<int, std::shared_ptr<RankStore>>& stores, uint64_t step) {
  auto source = std::make_unique<MemorySource>();
  source->contents_ = contents_of(stores, step);
  if (!is_whole(source->contents_)) {
    return Error{fmt::format("loading step {} from memory: it is no longer there", step)};
  }
  std::vector<Receipt> receipts;
  for (const auto& [rank, content] : source->contents_) {
    Receipt receipt = make_receipt(*content.layout, rank);
    const char* slot = content.arena->slot(content.slot);
    for (size_t i = 0; i < receipt.files.size(); ++i) {
      const FileImage& image = content.layout->layout.files[i];
      const std::string_view bytes(slot + image.slot_offset, image.bytes);
      receipt.files[i].crc32c = chunk_checksums(bytes);
      receipt.files[i].xxh3 = std::string(kHashDigits, '0');
      source->vfs_.add(std::string(kDirectory) + "/" + image.path, bytes);
    }
    const std::string state = state_path(rank);
    receipt.files.push_back({.path = state,
                             .rank = rank,
                             .bytes = content.state_json.size(),
                             .crc32c = chunk_checksums(content.state_json),
                             .xxh3 = std::string(kHashDigits, '0')});
    source->vfs_.add(std::string(kDirectory) + "/" + state, content.state_json);
    receipts.push_back(std::move(receipt));
  }
  const auto& first = source->contents_.begin()->second;
  Manifest manifest{.id = {.step = step},
                    .run = "memory",
                    .world_size = first.world_size,
                    .created_unix_ns = system_clock().unix_time_ns(),
                    .files = {},
                    .tensors = {},
                    .aliases = {},
                    .global_json = first.global_json};
  TRY_STATUS(merge_receipts(receipts, manifest));
  source->manifest_ = encode_manifest(manifest);
  source->vfs_.add(std::string(kDirectory) + "/MANIFEST.json", source->manifest_);
  source->reader_ = TRY(open_checkpoint(source->vfs_, kDirectory));
  return source;
}

}  // namespace shanty::ckpt
