#include <algorithm>
#include <utility>

#include "ckpt/store.h"
#include "ckpt/store_files.h"

namespace shanty::ckpt {
namespace {

// What may go: `committed` is newest first, and `whole` the first of it that was read back.
std::vector<Listed> superfluous(const std::vector<Listed>& committed, size_t whole, size_t keep) {
  std::vector<Listed> out;
  for (size_t i = std::max(whole + 1, keep); i < committed.size(); ++i) {
    if (!committed[i].pinned && !committed[i].best) out.push_back(committed[i]);
  }
  return out;
}

// A checkpoint that was pinned since it was listed stays.
Status remove(Vfs& vfs, const std::string& root, const Listed& listed) {
  if (TRY(vfs.info(join_path(listed.directory, kPinnedName))).exists) return {};
  const std::string name = listed.directory.substr(listed.directory.rfind('/') + 1);
  const std::string trashed = TRY(move_to_trash(vfs, root, name));
  return delete_tree(vfs, trashed);
}

}  // namespace

Result<std::vector<Listed>> prune(Vfs& vfs, const std::string& root, const PruneOptions& options) {
  const std::string what = "pruning " + root;
  std::vector<Listed> committed = TRY(list_checkpoints(vfs, root).context(what));
  std::erase_if(committed, [](const Listed& l) { return l.state != CheckpointState::kCommitted; });
  if (options.best) mark_best(committed, options.best);
  const size_t keep = std::max<size_t>(options.keep, 1);
  if (committed.size() <= keep || !options.is_whole) return std::vector<Listed>();
  const auto whole = std::find_if(committed.begin(), committed.end(), options.is_whole);
  if (whole == committed.end()) return std::vector<Listed>();
  std::vector<Listed> gone =
      superfluous(committed, static_cast<size_t>(whole - committed.begin()), keep);
  if (options.dry_run) return gone;
  // Its visible name may be all that a power cut would take back, but nothing of it is assumed.
  TRY_STATUS(vfs.sync_directory(whole->directory).context(what));
  TRY_STATUS(vfs.sync_directory(root).context(what));
  for (const Listed& listed : gone) TRY_STATUS(remove(vfs, root, listed).context(what));
  return gone;
}

}  // namespace shanty::ckpt
