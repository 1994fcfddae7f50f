// Two processes and one root: another generation takes over at every moment of a save.

#include <string>

#include <gtest/gtest.h>

#include "ckpt/power_cuts.h"

namespace shanty::ckpt {
namespace {

struct Race {
  ModelVfs vfs;
  Fence old_fence;
  CheckpointId old_id{.step = 2, .generation = 1};
};

void prepare(Race& race) {
  race.old_fence = open_root(race.vfs, kRoot, "run", 1).value();
  ASSERT_TRUE(run_save(race.vfs, race.old_fence, {.step = 1, .generation = 1}, {.salt = 1}).ok());
}

bool is_committed(Vfs& vfs, const CheckpointId& id) {
  const auto all = list_checkpoints(vfs, kRoot);
  for (const Listed& listed : *all) {
    if (listed.id == id && listed.state == CheckpointState::kCommitted) return true;
  }
  return false;
}

TEST(Fence, ASuccessorAtAnyMomentOfASaveEndsItOrKeepsIt) {
  size_t ended = 0;
  size_t kept = 0;
  for (size_t moment = 0;; ++moment) {
    Race race;
    prepare(race);
    size_t count = 0;
    bool committed_before = false;
    race.vfs.before_change = [&] {
      if (count++ != moment) return;
      ASSERT_TRUE(open_root(race.vfs, kRoot, "run", 2).ok());
      committed_before = is_committed(race.vfs, race.old_id);
    };
    const auto saved = run_save(race.vfs, race.old_fence, race.old_id, {.salt = 2});
    race.vfs.before_change = nullptr;
    if (count <= moment) break;
    EXPECT_EQ(is_committed(race.vfs, race.old_id), committed_before) << "moment " << moment;
    EXPECT_TRUE(committed_before || !saved.ok()) << "moment " << moment;
    const uint64_t acked = saved.ok() ? 2 : 1;
    EXPECT_EQ(check_load(race.vfs, {.begun = 2, .acked = acked}, false), "") << moment;
    saved.ok() ? ++kept : ++ended;
  }
  EXPECT_GT(ended, 20U);
  EXPECT_GT(kept, 0U);
}

TEST(Fence, ASaveThatEndsAtAnyMomentOfASuccessorsOpeningIsNotLost) {
  size_t acknowledged = 0;
  for (size_t moment = 0;; ++moment) {
    Race race;
    prepare(race);
    ASSERT_TRUE(make_in_progress(race.vfs, race.old_fence, race.old_id).ok());
    const std::string directory = kRoot + "/" + in_progress_name(race.old_id);
    std::vector<Receipt> receipts;
    for (int rank = 0; rank < 2; ++rank) {
      receipts.push_back(write_rank(race.vfs, directory, {.salt = 2}, rank).value());
    }
    size_t count = 0;
    bool acked = false;
    race.vfs.before_change = [&] {
      if (count++ != moment) return;
      acked = commit(race.vfs, race.old_fence, race.old_id, 2, receipts, global_of(2)).ok();
    };
    const auto fence = open_root(race.vfs, kRoot, "run", 2);
    race.vfs.before_change = nullptr;
    if (count <= moment) break;
    EXPECT_TRUE(fence.ok()) << "moment " << moment;
    EXPECT_EQ(is_committed(race.vfs, race.old_id), acked) << "moment " << moment;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      RandomChooser chooser(seed);
      const auto after = race.vfs.after_power_cut(chooser);
      EXPECT_EQ(check_load(*after, {.begun = 2, .acked = acked ? 2U : 1U}, false), "")
          << "moment " << moment << ", seed " << seed;
    }
    if (acked) ++acknowledged;
  }
  EXPECT_GT(acknowledged, 0U);
}

TEST(Fence, AnOlderGenerationMayNeitherOpenNorBeginNorCommit) {
  Race race;
  prepare(race);
  const Fence successor = open_root(race.vfs, kRoot, "run", 2).value();
  const auto again = open_root(race.vfs, kRoot, "run", 1);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("generation 2 of this run has it"), std::string::npos);
  const Status begun = make_in_progress(race.vfs, race.old_fence, race.old_id);
  ASSERT_FALSE(begun.ok());
  EXPECT_NE(begun.error().message.find("may not commit any more"), std::string::npos);
  EXPECT_TRUE(run_save(race.vfs, successor, {.step = 2, .generation = 2}, {.salt = 2}).ok());
}

TEST(Fence, TheSameGenerationStartedAgainTakesOver) {
  Race race;
  prepare(race);
  const Fence again = open_root(race.vfs, kRoot, "run", 1).value();
  EXPECT_FALSE(run_save(race.vfs, race.old_fence, race.old_id, {.salt = 2}).ok());
  EXPECT_TRUE(run_save(race.vfs, again, race.old_id, {.salt = 2}).ok());
}

TEST(Fence, AnotherRunTakesOverAtAnyGeneration) {
  Race race;
  prepare(race);
  EXPECT_TRUE(open_root(race.vfs, kRoot, "other", 0).ok());
  EXPECT_FALSE(run_save(race.vfs, race.old_fence, race.old_id, {.salt = 2}).ok());
}

TEST(Fence, TheNextIdIsFree) {
  Race race;
  prepare(race);
  EXPECT_EQ(next_id(race.vfs, race.old_fence, 1)->attempt, 2U);
  EXPECT_EQ(next_id(race.vfs, race.old_fence, 2)->attempt, 1U);
  ASSERT_TRUE(make_in_progress(race.vfs, race.old_fence, race.old_id).ok());
  EXPECT_FALSE(make_in_progress(race.vfs, race.old_fence, race.old_id).ok());
  EXPECT_EQ(next_id(race.vfs, race.old_fence, 2)->attempt, 2U);
  abandon(race.vfs, race.old_fence, race.old_id);
  EXPECT_TRUE(make_in_progress(race.vfs, race.old_fence, race.old_id).ok());
  EXPECT_FALSE(make_in_progress(race.vfs, race.old_fence, {.step = 1, .generation = 1}).ok());
}

}  // namespace
}  // namespace shanty::ckpt
