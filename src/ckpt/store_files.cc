#include "ckpt/store_files.h"

#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/random.h"

namespace shanty::ckpt {
namespace {

constexpr int kMaxTreeDepth = 16;  // a checkpoint has two levels

Status delete_at_depth(Vfs& vfs, const std::string& path, int depth) {
  const FileInfo info = TRY(vfs.info(path));
  if (!info.exists) return {};
  if (!info.is_directory) return vfs.remove_file(path);
  if (depth >= kMaxTreeDepth) return Error{"deleting " + path + ": too deep"};
  const std::string manifest = join_path(path, kManifestName);
  if (TRY(vfs.info(manifest)).exists) TRY_STATUS(vfs.remove_file(manifest));
  for (const std::string& name : TRY(vfs.list(path))) {
    TRY_STATUS(delete_at_depth(vfs, join_path(path, name), depth + 1));
  }
  return vfs.remove_directory(path);
}

Status write_sync_close(VfsFile& file, std::string_view content) {
  TRY_STATUS(file.write_at(0, content));
  TRY_STATUS(file.sync());
  return file.close();
}

}  // namespace

std::string join_path(std::string_view directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::string> read_front(Vfs& vfs, const std::string& path, size_t limit_bytes) {
  const auto file = TRY(vfs.open(path, {}));
  std::string text(limit_bytes, '\0');
  text.resize(TRY(file->read_at(0, text.data(), text.size())));
  return text;
}

Status write_new_file(Vfs& vfs, const std::string& path, std::string_view content) {
  const auto file = TRY(vfs.open(path, {.create = true, .write = true}));
  const Status written = write_sync_close(*file, content);
  if (!written.ok()) discard(vfs.remove_file(path), "the error of the write is what counts");
  return written;
}

Result<std::string> rename_to_trash(Vfs& vfs, const std::string& root, const std::string& name) {
  const std::string trash = join_path(root, kTrashName);
  if (!TRY(vfs.info(trash)).exists) {
    const Status made = vfs.make_directory(trash);
    if (!made.ok() && !TRY(vfs.info(trash)).exists) return made.error();
  }
  const std::string target = fmt::format("{}/{}.{}", trash, name, hex(secure_random_bytes(4)));
  TRY_STATUS(vfs.rename(join_path(root, name), target));
  return target;
}

Result<std::string> move_to_trash(Vfs& vfs, const std::string& root, const std::string& name) {
  const std::string target = TRY(rename_to_trash(vfs, root, name));
  TRY_STATUS(vfs.sync_directory(join_path(root, kTrashName)));
  TRY_STATUS(vfs.sync_directory(root));
  return target;
}

Status delete_tree(Vfs& vfs, const std::string& path) { return delete_at_depth(vfs, path, 0); }

Status make_visible(Vfs& vfs, const std::string& root, const CheckpointId& id) {
  TRY_STATUS(vfs.rename(join_path(root, in_progress_name(id)), join_path(root, visible_name(id))));
  return vfs.sync_directory(root);
}

Status point_latest(Vfs& vfs, const std::string& root, const CheckpointId& id) {
  TRY_STATUS(vfs.replace_link(join_path(root, kLatestName), visible_name(id)));
  return vfs.sync_directory(root);
}

}  // namespace shanty::ckpt
