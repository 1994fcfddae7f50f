#pragma once

// For tests only: power cuts at every moment of a history of saves.

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ckpt/model_vfs.h"
#include "ckpt/open_checkpoint.h"
#include "ckpt/store.h"
#include "ckpt/store_files.h"
#include "ckpt/test_saves.h"

namespace shanty::ckpt {

const std::string kRoot = "/data/ckpts";

// Cuts the power before every change that a history makes and asks `check` about each state that
// this may leave.
class PowerCuts {
 public:
  using Check = std::function<std::string(ModelVfs&, uint64_t seed)>;  // "" or the violation

  PowerCuts(ModelVfs& vfs, uint64_t seed, size_t per_moment, Check check)
      : vfs_(vfs), seed_(seed), per_moment_(per_moment), check_(std::move(check)) {
    vfs_.before_change = [this] { cut(); };
  }
  ~PowerCuts() { vfs_.before_change = nullptr; }
  PowerCuts(const PowerCuts&) = delete;
  PowerCuts& operator=(const PowerCuts&) = delete;

  // Also to be called at the end of the history.
  void cut() {
    ++moments_;
    EveryChooser every(seed_ + moments_);
    size_t tried = 0;
    while (tried < per_moment_ && every.next()) {
      ++tried;
      look(*vfs_.after_power_cut(every), seed_ + moments_);
    }
    if (tried < per_moment_) return;  // these were all
    for (size_t i = 0; i < per_moment_; ++i) {
      const uint64_t seed = seed_ + moments_ * 100'003 + i;
      RandomChooser random(seed);
      look(*vfs_.after_power_cut(random), seed);
    }
  }

  // What was promised has changed, so states that were seen count anew.
  void promise() { ++promises_; }

  size_t states = 0;
  size_t violations = 0;
  std::string first_violation;

 private:
  void look(ModelVfs& after, uint64_t seed) {
    if (!seen_.insert(after.fingerprint() + promises_).second) return;
    ++states;
    const std::string violation = check_(after, seed);
    if (violation.empty()) return;
    ++violations;
    if (first_violation.empty()) {
      first_violation = fmt::format("before change {} (seed {}): {}", moments_, seed, violation);
    }
  }

  ModelVfs& vfs_;
  uint64_t seed_;
  size_t per_moment_;
  Check check_;
  uint64_t moments_ = 0;
  uint64_t promises_ = 0;
  std::unordered_set<uint64_t> seen_;
};

// What was begun and what was acknowledged, by step (= salt).
struct History {
  uint64_t begun = 0;
  uint64_t acked = 0;
};

inline std::string check_load(Vfs& vfs, const History& history, bool may_skip) {
  const auto loaded = load_newest(vfs, kRoot);
  if (!loaded) return loaded.error().message;
  if (!loaded->skipped.empty() && !may_skip) {
    return "a committed one is damaged: " + loaded->skipped[0].first + " " +
           loaded->skipped[0].second;
  }
  const uint64_t salt = loaded->salt.value_or(0);
  if (salt < history.acked) {
    return fmt::format("loaded save {} after save {} was acknowledged", salt, history.acked);
  }
  if (salt > history.begun) return fmt::format("loaded save {}, which was not begun", salt);
  if (salt != 0 && loaded->id.step != salt) return "the id is not that of the content";
  return "";
}

// The next process after the power cut: opens the root, saves, and loads that.
inline std::string check_going_on(ModelVfs& vfs, const History& history) {
  const auto fence = open_root(vfs, kRoot, "run", 9);
  if (!fence) return "opening the root: " + fence.error().message;
  if (std::string bad = check_load(vfs, history, false); !bad.empty()) return "reopened: " + bad;
  const uint64_t step = history.begun + 1;
  const auto id = next_id(vfs, *fence, step);
  if (!id) return id.error().message;
  const auto saved = run_save(vfs, *fence, *id, {.salt = step});
  if (!saved) return "saving on top: " + saved.error().message;
  if (!saved->note.empty()) return "saving on top left a note: " + saved->note;
  return check_load(vfs, {.begun = step, .acked = step}, false);
}

// Power cuts while the next process opens the root.
inline std::string check_second_cut(ModelVfs& vfs, const History& history, uint64_t seed,
                                    size_t& states) {
  const auto check = [&](ModelVfs& after, uint64_t) { return check_load(after, history, false); };
  PowerCuts cuts(vfs, seed, 4, check);
  const auto fence = open_root(vfs, kRoot, "run", 9);
  cuts.cut();
  states += cuts.states;
  if (!fence) return "opening the root: " + fence.error().message;
  return cuts.first_violation;
}

inline PruneOptions keep_newest(Vfs& vfs, size_t keep) {
  return {.keep = keep, .is_whole = [&vfs](const Listed& listed) {
            return verify_checkpoint(vfs, listed.directory, 1).empty();
          }};
}

struct Plan {
  uint64_t seed = 1;
  int saves = 4;
  size_t per_moment = 40;
  size_t keep = 1;
  uint64_t reopen_every = 0;  // a new generation opens the root before each n-th save
  bool links = false;         // each save links what is still to the one before
  bool delete_first = false;  // a mutant: the old one goes before the new one is written
};

struct Outcome {
  size_t states = 0;
  size_t violations = 0;
  std::string first_violation;
};

// A vfs that breaks the protocol on its way to the model; identity for the protocol itself.
using MakeVfs = std::function<std::unique_ptr<Vfs>(ModelVfs&)>;

inline Outcome run_history(const Plan& plan, const MakeVfs& make_vfs, bool go_on) {
  ModelVfs model;
  const std::unique_ptr<Vfs> wrapped = make_vfs ? make_vfs(model) : nullptr;
  Vfs& vfs = wrapped ? *wrapped : model;
  History history;
  uint64_t checked = 0;
  size_t nested = 0;
  PowerCuts cuts(model, plan.seed * 1'000'000'007, plan.per_moment,
                 [&](ModelVfs& after, uint64_t seed) {
                   std::string bad = check_load(after, history, false);
                   if (!bad.empty() || !go_on) return bad;
                   ++checked;
                   if (checked % 32 == 0) return check_going_on(after, history);
                   if (checked % 61 == 0) return check_second_cut(after, history, seed, nested);
                   return bad;
                 });
  CheckpointId last;
  LinkSource source;
  auto fence = open_root(vfs, kRoot, "run", 1);
  EXPECT_TRUE(fence.ok());
  for (int i = 1; fence.ok() && i <= plan.saves; ++i) {
    const auto step = static_cast<uint64_t>(i);
    if (plan.reopen_every != 0 && step % plan.reopen_every == 0) {
      fence = open_root(vfs, kRoot, "run", fence->generation + 1);
      EXPECT_TRUE(fence.ok());
    }
    history.begun = step;
    if (plan.delete_first && step > 1) {
      const auto deleted = delete_tree(vfs, kRoot + "/" + visible_name(last));
      EXPECT_TRUE(deleted.ok());
    }
    const CheckpointId id{.step = step, .generation = fence->generation, .attempt = 1};
    TestSave save{.salt = step, .world = 2 + static_cast<int>(plan.seed % 2)};
    if (plan.links) save.source = source;
    const auto saved = run_save(vfs, *fence, id, save);
    EXPECT_TRUE(saved.ok()) << saved.error().message;
    history.acked = step;
    last = id;
    if (plan.links) {
      const std::string directory = kRoot + "/" + visible_name(id);
      source = {.directory = directory, .files = load_manifest(vfs, directory)->files};
    }
    cuts.promise();
    cuts.cut();
    const auto pruned = prune(vfs, kRoot, keep_newest(vfs, plan.keep));
    EXPECT_TRUE(pruned.ok()) << pruned.error().message;
    cuts.cut();
    if (cuts.violations > 0 && !wrapped) break;
  }
  return {cuts.states + nested, cuts.violations, cuts.first_violation};
}

}  // namespace shanty::ckpt
