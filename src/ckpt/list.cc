#include <algorithm>
#include <utility>

#include "ckpt/store.h"
#include "ckpt/store_files.h"

namespace shanty::ckpt {
namespace {

Result<ManifestSummary> read_summary(Vfs& vfs, const Listed& listed, uint64_t file_bytes) {
  const std::string path = join_path(listed.directory, kManifestName);
  const std::string front = TRY(read_front(vfs, path, kMaxSummaryBytes));
  ManifestSummary summary = TRY(decode_summary(front).context("MANIFEST.json"));
  if (summary.id != listed.id) return Error{"MANIFEST.json is that of another checkpoint"};
  if (file_bytes != summary.head_bytes + summary.body_bytes + 1) {
    return Error{"MANIFEST.json is not as long as its first line says"};
  }
  return summary;
}

void look_into(Vfs& vfs, bool in_progress, Listed& listed) {
  const auto damaged = [&listed](std::string problem) {
    listed.state = CheckpointState::kDamaged;
    listed.problem = std::move(problem);
  };
  const auto manifest = vfs.info(join_path(listed.directory, kManifestName));
  if (!manifest) return damaged(manifest.error().message);
  if (!manifest->exists) {
    if (!in_progress) damaged("MANIFEST.json is missing");
    return;
  }
  const auto pinned = vfs.info(join_path(listed.directory, kPinnedName));
  listed.pinned = !pinned || pinned->exists;  // when in doubt it stays
  auto summary = read_summary(vfs, listed, manifest->size);
  if (!summary) return damaged(summary.error().message);
  listed.state = CheckpointState::kCommitted;
  listed.summary = std::move(*summary);
}

}  // namespace

Result<std::vector<Listed>> list_checkpoints(Vfs& vfs, const std::string& root) {
  std::vector<Listed> out;
  if (!TRY(vfs.info(root + "/.")).exists) return out;
  for (const std::string& name : TRY(vfs.list(root))) {
    const auto id = parse_checkpoint_name(name);
    if (!id) continue;
    Listed listed{.directory = join_path(root, name), .id = *id};
    look_into(vfs, is_in_progress_name(name), listed);
    // It may have become visible, or have been pruned, while it was looked at.
    if (!listed.summary && !TRY(vfs.info(listed.directory)).exists) {
      listed = {.directory = join_path(root, visible_name(*id)), .id = *id};
      if (!is_in_progress_name(name) || !TRY(vfs.info(listed.directory)).exists) continue;
      look_into(vfs, false, listed);
    }
    out.push_back(std::move(listed));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Listed& a, const Listed& b) { return a.id > b.id; });
  const auto twice = [](const Listed& a, const Listed& b) { return a.directory == b.directory; };
  out.erase(std::unique(out.begin(), out.end(), twice), out.end());
  const auto newest = std::find_if(out.begin(), out.end(), [](const Listed& listed) {
    return listed.state == CheckpointState::kCommitted;
  });
  if (newest != out.end()) mark_best(out, newest->summary->score.best);
  return out;
}

void mark_best(std::vector<Listed>& all, const std::optional<BestRule>& rule) {
  std::vector<std::pair<double, Listed*>> candidates;
  for (Listed& listed : all) {
    listed.best = false;
    if (!rule || listed.state != CheckpointState::kCommitted) continue;
    const auto value = listed.summary->score.metrics.find(rule->metric);
    if (value == listed.summary->score.metrics.end()) continue;
    candidates.emplace_back(rule->highest ? -value->second : value->second, &listed);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < candidates.size() && i < rule->keep; ++i)
    candidates[i].second->best = true;
}

Status pin(Vfs& vfs, const std::string& checkpoint_dir, const std::string& why) {
  const std::string path = join_path(checkpoint_dir, kPinnedName);
  if (TRY(vfs.info(path)).exists) return {};
  TRY_STATUS(write_new_file(vfs, path, why + "\n").context("pinning " + checkpoint_dir));
  return vfs.sync_directory(checkpoint_dir);
}

}  // namespace shanty::ckpt
