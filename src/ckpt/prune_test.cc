// Which checkpoints stay.

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "ckpt/lease.h"
#include "ckpt/model_vfs.h"
#include "ckpt/power_cuts.h"
#include "ckpt/store.h"
#include "ckpt/test_saves.h"

namespace shanty::ckpt {
namespace {

using testing::ElementsAre;

class PruneTest : public ::testing::Test {
 protected:
  void SetUp() override { fence_ = open_root(vfs_, kRoot, "run", 1).value(); }

  std::string save(uint64_t step, const std::string& global = "") {
    const auto saved =
        run_save(vfs_, fence_, {.step = step, .generation = 1}, {.salt = step, .global = global});
    EXPECT_TRUE(saved.ok()) << saved.error().message;
    return saved->directory;
  }
  void save_with_loss(uint64_t step, const std::string& loss, const std::string& mode = "min") {
    save(step, fmt::format(R"({{"metrics":{{"loss":{}}},)"
                           R"("keep_best":{{"metric":"loss","mode":"{}","count":2}}}})",
                           loss, mode));
  }
  std::set<uint64_t> steps() {
    std::set<uint64_t> out;
    const auto all = list_checkpoints(vfs_, kRoot);
    for (const Listed& listed : *all) out.insert(listed.id.step);
    return out;
  }

  ModelVfs vfs_;
  Fence fence_;
};

TEST_F(PruneTest, TheBestStayByTheRuleOfTheNewest) {
  save_with_loss(1, "0.5");
  save_with_loss(2, "0.1");
  save_with_loss(3, "null");
  save_with_loss(4, "0.5");
  save_with_loss(5, "0.9");
  ASSERT_TRUE(prune(vfs_, kRoot, keep_newest(vfs_, 1)).ok());
  EXPECT_THAT(steps(), ElementsAre(2, 4, 5));
  // What is better takes the place of the worst of them.
  save_with_loss(6, "0.3");
  ASSERT_TRUE(prune(vfs_, kRoot, keep_newest(vfs_, 1)).ok());
  EXPECT_THAT(steps(), ElementsAre(2, 6));
  save_with_loss(7, "0.01", "max");
  ASSERT_TRUE(prune(vfs_, kRoot, keep_newest(vfs_, 1)).ok());
  EXPECT_THAT(steps(), ElementsAre(2, 6, 7));
}

TEST_F(PruneTest, ARunThatWasTakenBackKeepsWhatItSavesNow) {
  for (const uint64_t step : {100, 200, 300, 250}) save(step);
  EXPECT_EQ(list_checkpoints(vfs_, kRoot)->front().id.step, 250U);
  ASSERT_TRUE(prune(vfs_, kRoot, keep_newest(vfs_, 2)).ok());
  EXPECT_THAT(steps(), ElementsAre(250, 300));
  save(260);
  ASSERT_TRUE(prune(vfs_, kRoot, keep_newest(vfs_, 2)).ok());
  EXPECT_THAT(steps(), ElementsAre(250, 260));
}

TEST_F(PruneTest, WhatIsSavedUnderAClockThatIsBehindIsTheNewestAllTheSame) {
  fence_.newest_unix_ns = system_clock().unix_time_ns() + int64_t{3'600'000'000'000};
  save(5);
  fence_ = open_root(vfs_, kRoot, "run", 1).value();
  save(4);
  const auto all = list_checkpoints(vfs_, kRoot);
  EXPECT_EQ(all->front().id.step, 4U);
  EXPECT_GT(all->front().summary->created_unix_ns, all->back().summary->created_unix_ns);
}

TEST_F(PruneTest, AGivenRuleTakesTheNewestsPlace) {
  for (uint64_t step = 1; step <= 4; ++step) save_with_loss(step, fmt::format("0.{}", step));
  PruneOptions options = keep_newest(vfs_, 1);
  options.best = {.metric = "loss", .highest = true, .keep = 2};
  ASSERT_TRUE(prune(vfs_, kRoot, options).ok());
  EXPECT_THAT(steps(), ElementsAre(3, 4));
}

TEST_F(PruneTest, WhatIsReadStaysUntilThen) {
  const std::string first = save(1);
  save(2);
  auto lease = Lease::take(vfs_, first);
  ASSERT_NE(lease, nullptr);
  PruneOptions options = keep_newest(vfs_, 1);
  options.dry_run = true;
  EXPECT_TRUE(prune(vfs_, kRoot, options)->empty());
  options.dry_run = false;
  EXPECT_TRUE(prune(vfs_, kRoot, options)->empty());
  EXPECT_THAT(steps(), ElementsAre(1, 2));
  lease.reset();
  EXPECT_EQ(prune(vfs_, kRoot, options)->size(), 1U);
  EXPECT_THAT(steps(), ElementsAre(2));
}

// Hangs until it is told to go on.
class HangingVfs : public ModelVfs {
 public:
  Status remove_file(const std::string& path) override {
    go.get_future().wait();
    const Status removed = ModelVfs::remove_file(path);
    done.set_value();
    return removed;
  }
  std::promise<void> go;
  std::promise<void> done;
};

TEST(Lease, StorageThatHangsDoesNotHoldItsEndUp) {
  HangingVfs vfs;
  ASSERT_TRUE(vfs.make_directory("/a").ok());
  Lease::take(vfs, "/a", std::chrono::milliseconds(10)).reset();
  EXPECT_TRUE(is_leased(vfs, "/a").value());
  vfs.go.set_value();
  vfs.done.get_future().wait();
  EXPECT_FALSE(is_leased(vfs, "/a").value());
}

TEST_F(PruneTest, ALeaseThatExpiredHoldsNothing) {
  const std::string first = save(1);
  save(2);
  const int64_t now_unix_s = system_clock().unix_time_ns() / 1'000'000'000;
  const auto leave = [&](int64_t expires_unix_s) {
    const std::string path = first + "/" + lease_name(expires_unix_s, "node1-7-ab");
    ASSERT_TRUE(vfs_.open(path, {.create = true, .write = true}).ok());
  };
  leave(now_unix_s - 2);
  EXPECT_FALSE(is_leased(vfs_, first).value());
  leave(now_unix_s + 60);
  EXPECT_TRUE(is_leased(vfs_, first).value());
}

// Prunes the first of two checkpoints; a reader takes a lease of it before the change `at`. Returns
// how many changes there were.
size_t prune_with_reader_at(size_t at) {
  ModelVfs vfs;
  const Fence fence = open_root(vfs, kRoot, "run", 1).value();
  std::string first;
  for (const uint64_t step : {2, 1}) {
    first = run_save(vfs, fence, {.step = step, .generation = 1}, {.salt = step})->directory;
  }
  std::unique_ptr<Lease> lease;
  size_t changes = 0;
  vfs.before_change = [&] {
    if (changes++ == at) lease = Lease::take(vfs, first);
  };
  EXPECT_TRUE(prune(vfs, kRoot, keep_newest(vfs, 1)).ok());
  vfs.before_change = nullptr;
  if (lease == nullptr) return changes;  // it was gone already
  const auto reader = open_checkpoint(vfs, first);
  EXPECT_TRUE(reader.ok()) << at;
  if (!reader.ok()) return changes;
  EXPECT_EQ(check_content(**reader, 1).value(), 1U) << at;
  return changes;
}

TEST(PruneAndReaders, WhoeverTookALeaseInTimeReadsOn) {
  const size_t moments = prune_with_reader_at(SIZE_MAX);
  EXPECT_GT(moments, 10U);
  for (size_t at = 0; at < moments; ++at) prune_with_reader_at(at);
}

}  // namespace
}  // namespace shanty::ckpt
