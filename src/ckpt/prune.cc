#include <algorithm>
#include <utility>

#include "ckpt/lease.h"
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

// One that was pinned since it was listed stays, and one that somebody reads.
Result<bool> must_stay(Vfs& vfs, const std::string& directory) {
  if (TRY(vfs.info(join_path(directory, kPinnedName))).exists) return true;
  return is_leased(vfs, directory);
}

// False: it stays.
Result<bool> remove(Vfs& vfs, const std::string& root, const Listed& listed) {
  if (TRY(must_stay(vfs, listed.directory))) return false;
  const std::string name = listed.directory.substr(listed.directory.rfind('/') + 1);
  const std::string trashed = TRY(move_to_trash(vfs, root, name));
  // A reader that came just before the rename has put its lease here; one that comes now finds
  // nothing and takes another checkpoint.
  if (TRY(must_stay(vfs, trashed))) {
    TRY_STATUS(vfs.rename(trashed, listed.directory));
    TRY_STATUS(vfs.sync_directory(root));
    TRY_STATUS(vfs.sync_directory(join_path(root, kTrashName)));
    return false;
  }
  TRY_STATUS(delete_tree(vfs, trashed));
  return true;
}

Result<std::vector<Listed>> without_leased(Vfs& vfs, std::vector<Listed> gone) {
  std::vector<Listed> out;
  for (Listed& listed : gone) {
    if (!TRY(is_leased(vfs, listed.directory))) out.push_back(std::move(listed));
  }
  return out;
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
  const std::vector<Listed> old =
      superfluous(committed, static_cast<size_t>(whole - committed.begin()), keep);
  if (options.dry_run) return without_leased(vfs, old);
  // Its visible name may be all that a power cut would take back, but nothing of it is assumed.
  TRY_STATUS(vfs.sync_directory(whole->directory).context(what));
  TRY_STATUS(vfs.sync_directory(root).context(what));
  std::vector<Listed> gone;
  for (const Listed& listed : old) {
    if (TRY(remove(vfs, root, listed).context(what))) gone.push_back(listed);
  }
  return gone;
}

}  // namespace shanty::ckpt
