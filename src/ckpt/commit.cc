#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "ckpt/store.h"
#include "ckpt/store_files.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

Status merge_tensor(const std::string& name, const StoredTensor& from, size_t first_file,
                    Manifest& manifest) {
  const auto [it, is_new] =
      manifest.tensors.try_emplace(name, StoredTensor{.dtype = from.dtype,
                                                      .element_bytes = from.element_bytes,
                                                      .shape = from.shape,
                                                      .group = from.group});
  StoredTensor& to = it->second;
  if (!is_new && (to.dtype != from.dtype || to.element_bytes != from.element_bytes ||
                  to.shape != from.shape || to.group != from.group)) {
    return Error{"ranks disagree on the type, the shape or the group of tensor " + in_quotes(name)};
  }
  for (StoredPiece piece : from.pieces) {
    piece.file += first_file;
    to.pieces.push_back(std::move(piece));
  }
  return {};
}

Status merge_receipt(const Receipt& receipt, Manifest& manifest) {
  const size_t first_file = manifest.files.size();
  for (const StoredFile& file : receipt.files) {
    if (file.rank != receipt.rank) return Error{"a receipt has a file of another rank"};
    manifest.files.push_back(file);
  }
  for (const auto& [name, tensor] : receipt.tensors) {
    TRY_STATUS(merge_tensor(name, tensor, first_file, manifest));
  }
  for (const auto& [name, target] : receipt.aliases) {
    const auto [it, is_new] = manifest.aliases.try_emplace(name, target);
    if (!is_new && it->second != target) {
      return Error{"ranks disagree on what " + in_quotes(name) + " is an alias of"};
    }
  }
  return {};
}

}  // namespace

Status merge_receipts(const std::vector<Receipt>& receipts, Manifest& manifest) {
  std::vector<const Receipt*> by_rank(static_cast<size_t>(manifest.world_size));
  for (const Receipt& receipt : receipts) {
    if (receipt.rank < 0 || receipt.rank >= manifest.world_size) {
      return Error{
          fmt::format("a receipt of rank {} in a world of {}", receipt.rank, manifest.world_size)};
    }
    const Receipt*& slot = by_rank[static_cast<size_t>(receipt.rank)];
    if (slot != nullptr) return Error{fmt::format("two receipts of rank {}", receipt.rank)};
    slot = &receipt;
  }
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] == nullptr) return Error{fmt::format("no receipt of rank {}", rank)};
    TRY_STATUS(merge_receipt(*by_rank[rank], manifest));
  }
  return {};
}

namespace {

// The manifest as it will be written, read once more by the rules of a reader, coverage included.
Result<std::string> make_manifest(const Fence& fence, const CheckpointId& id, int world_size,
                                  const std::vector<Receipt>& receipts,
                                  const std::string& global_json, uint64_t number,
                                  int64_t created_unix_ns) {
  if (world_size < 1 || world_size > kMaxRanks) return Error{"a world of no believable size"};
  const auto global = parse_json(global_json, kMaxGlobalNesting);
  if (!global || !global->is_object()) {
    return Error{fmt::format("what is no tensor is not a JSON object of at most {} levels",
                             kMaxGlobalNesting)};
  }
  Manifest manifest{.id = id,
                    .run = fence.run,
                    .world_size = world_size,
                    .created_unix_ns = created_unix_ns,
                    .number = number,
                    .global_json = global_json};
  TRY_STATUS(merge_receipts(receipts, manifest));
  std::string text = encode_manifest(manifest);
  if (text.size() > kMaxManifestBytes) return Error{"a manifest of more than 4 GiB"};
  TRY(decode_manifest(text));
  return text;
}

// The step at which the checkpoint begins to exist.
Status put_manifest(Vfs& vfs, const Fence& fence, const std::string& directory,
                    std::string_view text) {
  // Named by the nonce, so that a fenced-off process cannot rename the file of its successor.
  const std::string temporary =
      join_path(directory, fmt::format("{}.tmp-{}", kManifestName, fence.nonce));
  TRY_STATUS(write_new_file(vfs, temporary, text));
  TRY_STATUS(check_fence(vfs, fence));
  TRY_STATUS(vfs.rename(temporary, join_path(directory, kManifestName)));
  return vfs.sync_directory(directory);
}

// After the visible rename failed: is the checkpoint there, under either name, and durably so?
// Another process may have moved it away and back.
Result<std::string> find_committed(Vfs& vfs, const Fence& fence, const CheckpointId& id) {
  for (const std::string& name : {visible_name(id), in_progress_name(id)}) {
    const std::string directory = join_path(fence.root, name);
    if (!TRY(vfs.info(join_path(directory, kManifestName))).exists) continue;
    TRY_STATUS(vfs.sync_directory(fence.root));
    return directory;
  }
  return Error{"another process has taken the directory away"};
}

}  // namespace

Result<CheckpointId> next_id(Vfs& vfs, const Fence& fence, uint64_t step) {
  CheckpointId id{.step = step, .generation = fence.generation, .attempt = 1};
  TRY_STATUS(check_id(id));
  for (const std::string& name : TRY(vfs.list(fence.root))) {
    const auto there = parse_checkpoint_name(name);
    if (!there || there->step != step || there->generation != id.generation) continue;
    id.attempt = std::max(id.attempt, there->attempt + 1);
  }
  return id;
}

Status make_in_progress(Vfs& vfs, const Fence& fence, const CheckpointId& id) {
  const std::string directory = join_path(fence.root, in_progress_name(id));
  const std::string what = "beginning a checkpoint in " + directory;
  TRY_STATUS(check_id(id).context(what));
  TRY_STATUS(check_fence(vfs, fence).context(what));
  if (TRY(vfs.info(join_path(fence.root, visible_name(id))).context(what)).exists) {
    return Error{what + ": it is committed already"};
  }
  TRY_STATUS(vfs.make_directory(directory).context(what));
  for (const char* part : {"model", "optim", "state"}) {
    TRY_STATUS(vfs.make_directory(join_path(directory, part)).context(what));
  }
  TRY_STATUS(vfs.sync_directory(directory).context(what));
  // Without this a commit would hang on the later rename being durable.
  return vfs.sync_directory(fence.root).context(what);
}

Result<Committed> commit(Vfs& vfs, const Fence& fence, const CheckpointId& id, int world_size,
                         const std::vector<Receipt>& receipts, const std::string& global_json,
                         uint64_t number) {
  const std::string directory = join_path(fence.root, in_progress_name(id));
  const std::string what = "committing " + directory;
  TRY_STATUS(check_id(id).context(what));
  // Clocks of nodes differ, and rank 0 may be on another one than before.
  const int64_t created = std::max(system_clock().unix_time_ns(), fence.newest_unix_ns + 1);
  const std::string text = TRY(
      make_manifest(fence, id, world_size, receipts, global_json, number, created).context(what));
  TRY_STATUS(put_manifest(vfs, fence, directory, text).context(what));
  Committed committed{
      .directory = join_path(fence.root, visible_name(id)), .note = "", .created_unix_ns = created};
  const Status visible = make_visible(vfs, fence.root, id);
  if (!visible.ok()) {
    committed.directory = TRY(find_committed(vfs, fence, id).context(what));
    committed.note = visible.error().message;
    return committed;
  }
  const Status latest = point_latest(vfs, fence.root, id);
  if (!latest.ok()) committed.note = latest.error().message;
  return committed;
}

void abandon(Vfs& vfs, const Fence& fence, const CheckpointId& id) {
  if (!check_fence(vfs, fence).ok()) return;  // a successor may use the same name
  const auto trashed = move_to_trash(vfs, fence.root, in_progress_name(id));
  // A full disk may have no room for .trash/ either, and what is not committed is in the way.
  const std::string where = trashed.ok() ? *trashed : join_path(fence.root, in_progress_name(id));
  if (!trashed.ok()) {
    const auto manifest = vfs.info(join_path(where, kManifestName));
    if (!manifest.ok() || manifest->exists) return;
  }
  discard(delete_tree(vfs, where), "the next process that opens the root tries again");
}

}  // namespace shanty::ckpt
