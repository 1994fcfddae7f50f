#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "ckpt/store.h"
#include "ckpt/store_files.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace shanty::ckpt {
namespace {

using nlohmann::json;

constexpr size_t kMaxGenerationBytes = 4096;
constexpr size_t kMaxRunBytes = 256;
constexpr size_t kNonceBytes = 16;
constexpr int kMaxParents = 64;

struct Holder {
  std::string run;
  uint64_t generation = 0;
  std::string nonce;
};

// nullopt: nobody holds the root, or what is written there is no holder.
Result<std::optional<Holder>> read_holder(Vfs& vfs, const std::string& root) {
  const std::string path = join_path(root, kGenerationName);
  if (!TRY(vfs.info(path)).exists) return std::optional<Holder>();
  const std::string text = TRY(read_front(vfs, path, kMaxGenerationBytes));
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return std::optional<Holder>();
  return std::optional<Holder>(Holder{.run = json_string(*parsed, "run"),
                                      .generation = json_uint64(*parsed, "generation"),
                                      .nonce = json_string(*parsed, "nonce")});
}

// Makes `path` and its parents, each durable in its own parent.
Status make_root(Vfs& vfs, const std::string& path, int depth) {
  const FileInfo info = TRY(vfs.info(path + "/."));
  if (info.is_directory) return {};
  if (depth >= kMaxParents) return Error{"making " + path + ": too many parents"};
  const std::string parent = parent_of(path);
  if (parent != path) TRY_STATUS(make_root(vfs, parent, depth + 1));
  const Status made = vfs.make_directory(path);
  // Another node may have made it at this moment.
  if (!made.ok() && !TRY(vfs.info(path + "/.")).is_directory) return made;
  return vfs.sync_directory(parent);
}

std::string temporary_prefix(uint64_t generation) {
  return fmt::format("{}.tmp-g{:04}-", kGenerationName, generation);
}

Status replace_holder(Vfs& vfs, const Fence& fence) {
  json out;
  out["run"] = fence.run;
  out["generation"] = fence.generation;
  out["nonce"] = fence.nonce;
  const std::string temporary =
      join_path(fence.root, temporary_prefix(fence.generation) + fence.nonce);
  TRY_STATUS(write_new_file(vfs, temporary, print_json(out) + "\n"));
  TRY_STATUS(vfs.rename(temporary, join_path(fence.root, kGenerationName)));
  return vfs.sync_directory(fence.root);
}

// A directory that was found without a manifest goes. If its owner committed it between the look
// and the rename, it is put back: that owner may have said so already.
Status trash_uncommitted(Vfs& vfs, const std::string& root, const std::string& name) {
  const auto trashed = rename_to_trash(vfs, root, name);
  if (!trashed.ok()) {
    // Its owner made it visible or gave it up in between.
    if (!TRY(vfs.info(join_path(root, name))).exists) return {};
    return trashed.error();
  }
  const std::string trash = join_path(root, kTrashName);
  if (!TRY(vfs.info(join_path(*trashed, kManifestName))).exists) {
    TRY_STATUS(vfs.sync_directory(trash));
    return vfs.sync_directory(root);
  }
  TRY_STATUS(vfs.rename(*trashed, join_path(root, name)));
  TRY_STATUS(vfs.sync_directory(root));
  return vfs.sync_directory(trash);
}

// Finishes or removes what a crash or an older generation left. Directories with a manifest stay
// even when it is damaged: that is for people to look at.
Status tidy_in_progress(Vfs& vfs, const std::string& root) {
  for (const std::string& name : TRY(vfs.list(root))) {
    if (!is_in_progress_name(name) || !parse_checkpoint_name(name)) continue;
    if (TRY(vfs.info(join_path(join_path(root, name), kManifestName))).exists) continue;
    TRY_STATUS(trash_uncommitted(vfs, root, name));
  }
  for (const Listed& listed : TRY(list_checkpoints(vfs, root))) {
    if (listed.state != CheckpointState::kCommitted) continue;
    if (listed.directory != join_path(root, in_progress_name(listed.id))) continue;
    // The rename of the manifest may not be durable yet if its process died and not the machine.
    TRY_STATUS(vfs.sync_directory(listed.directory));
    const Status made = make_visible(vfs, root, listed.id);
    if (!made.ok() && TRY(vfs.info(listed.directory)).exists) return made;
  }
  return {};
}

// What a crash left of replacing GENERATION and `latest`, and of a preflight. Files of a newer
// generation that opens the root at this moment are not touched.
void remove_temporaries(Vfs& vfs, const std::string& root, uint64_t generation) {
  const auto names = vfs.list(root);
  if (!names) return;
  for (const std::string& name : *names) {
    const bool old_generation =
        name.starts_with(std::string(kGenerationName) + ".tmp-g") &&
        name.substr(0, temporary_prefix(generation).size()) < temporary_prefix(generation);
    if (old_generation || name.starts_with(std::string(kLatestName) + ".tmp-") ||
        name.starts_with(kProbePrefix)) {
      discard(vfs.remove_file(join_path(root, name)), "the next process that opens it tries again");
    }
  }
}

Status redo_latest(Vfs& vfs, const std::string& root, const std::vector<Listed>& all) {
  for (const Listed& listed : all) {
    if (listed.state != CheckpointState::kCommitted) continue;
    if (listed.directory != join_path(root, visible_name(listed.id))) continue;
    return point_latest(vfs, root, listed.id);
  }
  return {};
}

void empty_trash(Vfs& vfs, const std::string& root) {
  const std::string trash = join_path(root, kTrashName);
  const auto names = vfs.list(trash);
  if (!names) return;
  for (const std::string& name : *names) {
    discard(delete_tree(vfs, join_path(trash, name)), "the next process that opens it tries again");
  }
}

}  // namespace

Status check_fence(Vfs& vfs, const Fence& fence) {
  const auto holder = TRY(read_holder(vfs, fence.root));
  if (holder && holder->nonce == fence.nonce) return {};
  return Error{fmt::format(
      "saving into {}: {} has taken it over since; this process may not commit any more",
      fence.root,
      holder ? fmt::format("generation {} of run {}", holder->generation, in_quotes(holder->run))
             : "somebody")};
}

Result<Fence> open_root(Vfs& vfs, const std::string& root, const std::string& run,
                        uint64_t generation) {
  const std::string what = "opening the checkpoint directory " + root;
  if (root.empty() || root.front() != '/') return Error{what + ": not an absolute path"};
  if (run.size() > kMaxRunBytes || find_invalid_utf8(run)) return Error{what + ": bad run id"};
  TRY_STATUS(check_id({.generation = generation}).context(what));
  TRY_STATUS(make_root(vfs, root, 0).context(what));
  const auto holder = TRY(read_holder(vfs, root).context(what));
  if (holder && holder->run == run && holder->generation > generation) {
    return Error{fmt::format("{}: generation {} of this run has it, and this is generation {}",
                             what, holder->generation, generation)};
  }
  Fence fence{.root = root,
              .run = run,
              .generation = generation,
              .nonce = hex(secure_random_bytes(kNonceBytes))};
  TRY_STATUS(replace_holder(vfs, fence).context(what));
  TRY_STATUS(tidy_in_progress(vfs, root).context(what));
  remove_temporaries(vfs, root, generation);
  empty_trash(vfs, root);
  const auto all = TRY(list_checkpoints(vfs, root).context(what));
  for (const Listed& listed : all) {
    if (!listed.summary) continue;
    fence.newest_unix_ns = std::max(fence.newest_unix_ns, listed.summary->created_unix_ns);
  }
  discard(redo_latest(vfs, root, all), "a hint; file systems without links have none");
  return fence;
}

}  // namespace shanty::ckpt
