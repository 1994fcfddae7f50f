#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ckpt/store.h"
#include "ckpt/vfs.h"

namespace shanty::ckpt {

// What the parts of the store share.

constexpr std::string_view kGenerationName = "GENERATION";
constexpr std::string_view kLatestName = "latest";
constexpr std::string_view kPinnedName = "PINNED";
constexpr std::string_view kTrashName = ".trash";
constexpr std::string_view kProbePrefix = ".probe-";  // a preflight's trial, gone after it

std::string join_path(std::string_view directory, std::string_view name);
std::string parent_of(const std::string& path);

// At most the first `limit_bytes` of a file.
Result<std::string> read_front(Vfs& vfs, const std::string& path, size_t limit_bytes);
// Writes a file that must not exist, synced and closed. After an error it is removed.
Status write_new_file(Vfs& vfs, const std::string& path, std::string_view content);

// An error when another process has opened the root since.
Status check_fence(Vfs& vfs, const Fence& fence);

// Renames `name` in `root` into .trash/; returns the new path.
Result<std::string> rename_to_trash(Vfs& vfs, const std::string& root, const std::string& name);
// The same made durable, before which nothing may be deleted: a power cut could undo the rename and
// keep the deletions.
Result<std::string> move_to_trash(Vfs& vfs, const std::string& root, const std::string& name);
// Deletes a file or a directory with all in it, the manifest of a checkpoint first. A missing one
// is fine.
Status delete_tree(Vfs& vfs, const std::string& path);

// Renames a committed checkpoint to its visible name and makes that durable.
Status make_visible(Vfs& vfs, const std::string& root, const CheckpointId& id);
// Points `latest` at it.
Status point_latest(Vfs& vfs, const std::string& root, const CheckpointId& id);

}  // namespace shanty::ckpt
