#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/parallel.h"
#include "ckpt/store.h"
#include "ckpt/store_files.h"

namespace shanty::ckpt {
namespace {

// Each is some system calls, of which a network file system may answer several at a time.
constexpr int kLookThreads = 8;
constexpr size_t kManyCheckpoints = 32;

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

// From the order of ids to newest first. What does not say when it was committed stays behind the
// one whose id comes before its own.
void sort_by_age(std::vector<Listed>& all) {
  std::vector<std::pair<int64_t, size_t>> order;
  int64_t created = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].summary) created = all[i].summary->created_unix_ns;
    order.emplace_back(created, i);
  }
  std::sort(order.rbegin(), order.rend());
  std::vector<Listed> sorted;
  for (const auto& [when, i] : order) sorted.push_back(std::move(all[i]));
  all = std::move(sorted);
}

// nullopt: it is no longer there.
Result<std::optional<Listed>> look_at(Vfs& vfs, const std::string& root, const std::string& name,
                                      const CheckpointId& id) {
  Listed listed{.directory = join_path(root, name), .id = id};
  look_into(vfs, is_in_progress_name(name), listed);
  // It may have become visible, or have been pruned, while it was looked at.
  if (!listed.summary && !TRY(vfs.info(listed.directory)).exists) {
    listed = {.directory = join_path(root, visible_name(id)), .id = id};
    if (!is_in_progress_name(name) || !TRY(vfs.info(listed.directory)).exists) {
      return std::optional<Listed>();
    }
    look_into(vfs, false, listed);
  }
  return std::optional<Listed>(std::move(listed));
}

}  // namespace

Result<std::vector<Listed>> list_checkpoints(Vfs& vfs, const std::string& root) {
  std::vector<Listed> out;
  if (!TRY(vfs.info(root + "/.")).exists) return out;
  std::vector<std::pair<std::string, CheckpointId>> names;
  for (std::string& name : TRY(vfs.list(root))) {
    if (const auto id = parse_checkpoint_name(name)) names.emplace_back(std::move(name), *id);
  }
  std::vector<Result<std::optional<Listed>>> looks(names.size(), std::optional<Listed>());
  const int threads = names.size() < kManyCheckpoints ? 1 : kLookThreads;
  for_each_parallel(names.size(), threads, [&](size_t i) {
    looks[i] = look_at(vfs, root, names[i].first, names[i].second);
    return true;
  });
  for (auto& look : looks) {
    if (auto listed = TRY(std::move(look))) out.push_back(std::move(*listed));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Listed& a, const Listed& b) { return a.id < b.id; });
  const auto twice = [](const Listed& a, const Listed& b) { return a.directory == b.directory; };
  out.erase(std::unique(out.begin(), out.end(), twice), out.end());
  sort_by_age(out);
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
