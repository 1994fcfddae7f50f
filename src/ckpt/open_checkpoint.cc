#include "ckpt/open_checkpoint.h"

#include <utility>

#include <fmt/format.h>

#include "ckpt/checked_file.h"
#include "ckpt/store_files.h"

namespace shanty::ckpt {

std::string describe(const Damage& damage) {
  if (!damage.chunk) return fmt::format("{} {}", damage.file, damage.what);
  const std::string_view verb = damage.what.starts_with("checksum") ? ": " : " ";
  return fmt::format("{}, chunk {}{}{}", damage.file, *damage.chunk, verb, damage.what);
}

std::string describe(const std::vector<Damage>& damage) {
  if (damage.empty()) return "no damage";
  if (damage.size() == 1) return describe(damage.front());
  return fmt::format("{} (and {} more)", describe(damage.front()), damage.size() - 1);
}

Result<Manifest> load_manifest(Vfs& vfs, const std::string& directory) {
  const std::string path = join_path(directory, kManifestName);
  const FileInfo info = TRY(vfs.info(path));
  if (!info.exists) return Error{"MANIFEST.json is missing"};
  if (info.size > kMaxManifestBytes) return Error{"MANIFEST.json is longer than 4 GiB"};
  const std::string text = TRY(read_front(vfs, path, info.size));
  Manifest manifest = TRY(decode_manifest(text).context("MANIFEST.json"));
  const auto id = parse_checkpoint_name(directory.substr(directory.rfind('/') + 1));
  if (id && *id != manifest.id) return Error{"MANIFEST.json is that of another checkpoint"};
  return manifest;
}

std::vector<Damage> check_sizes(Vfs& vfs, const std::string& directory, const Manifest& manifest) {
  std::vector<Damage> out;
  for (const StoredFile& file : manifest.files) {
    const auto info = vfs.info(join_path(directory, file.path));
    if (!info) {
      out.push_back({.file = file.path, .what = "cannot be read: " + info.error().message});
    } else if (!info->exists || info->is_directory) {
      out.push_back({.file = file.path, .what = "is missing"});
    } else if (info->size < file.bytes) {
      out.push_back(
          {.file = file.path, .what = fmt::format("is {} bytes short", file.bytes - info->size)});
    } else if (info->size > file.bytes) {
      out.push_back({.file = file.path,
                     .what = fmt::format("is {} bytes too long", info->size - file.bytes)});
    }
  }
  return out;
}

Result<std::unique_ptr<CheckpointReader>> open_newest(
    Vfs& vfs, const std::string& root, std::optional<uint64_t> step,
    std::vector<std::pair<std::string, std::string>>& skipped, const std::set<std::string>& avoid) {
  for (const Listed& listed : TRY(list_checkpoints(vfs, root))) {
    if (step && listed.id.step > *step) continue;
    if (listed.state == CheckpointState::kInProgress || avoid.contains(listed.directory)) continue;
    if (listed.state == CheckpointState::kDamaged) {
      skipped.emplace_back(listed.directory, listed.problem);
      continue;
    }
    auto reader = open_checkpoint(vfs, listed.directory);
    if (const auto twin = visible_twin(listed.directory); !reader.ok() && twin) {
      // It may have become visible between the list and now.
      const auto info = vfs.info(*twin);
      if (info.ok() && info->exists) reader = open_checkpoint(vfs, *twin);
    }
    if (reader.ok()) return reader;
    skipped.emplace_back(listed.directory, reader.error().message);
  }
  return std::unique_ptr<CheckpointReader>();
}

}  // namespace shanty::ckpt
