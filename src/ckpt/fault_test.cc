// Every operation of a save, of opening the root and of pruning fails once, in every way.

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "ckpt/power_cuts.h"
#include "ckpt/xxh3.h"

namespace shanty::ckpt {
namespace {

struct Attempt {
  bool opened = false;
  bool saved = false;
  std::string error;
};

// What a process does that opens the root, saves `step` and prunes.
Attempt open_save_prune(ModelVfs& vfs, uint64_t generation, uint64_t step) {
  Attempt attempt;
  const auto fence = open_root(vfs, kRoot, "run", generation);
  if (!fence.ok()) {
    attempt.error = fence.error().message;
    return attempt;
  }
  attempt.opened = true;
  const auto id = next_id(vfs, *fence, step);
  const auto saved =
      id.ok() ? run_save(vfs, *fence, *id, {.salt = step}) : Result<Committed>(id.error());
  if (!saved.ok()) {
    attempt.error = saved.error().message;
    if (id.ok()) abandon(vfs, *fence, *id);
    return attempt;
  }
  attempt.saved = true;
  const auto pruned = prune(vfs, kRoot, keep_newest(vfs, 1));
  if (!pruned.ok()) attempt.error = pruned.error().message;
  return attempt;
}

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kEio:
      return "EIO";
    case Fault::kEnospc:
      return "ENOSPC";
    case Fault::kEdquot:
      return "EDQUOT";
    case Fault::kEstale:
      return "ESTALE";
    case Fault::kShortWrite:
      return "short write";
    case Fault::kDoneButFailed:
      return "done but failed";
  }
  return "";
}

// One faulty operation, or all from it on when `stays` is set.
size_t check_fault(Fault fault, size_t at, bool stays) {
  ModelVfs vfs;
  EXPECT_TRUE(open_save_prune(vfs, 1, 1).saved);
  const size_t first = vfs.operations();
  vfs.fault = [&](size_t number) {
    const size_t n = number - first;
    return n == at || (stays && n > at) ? fault : Fault::kNone;
  };
  const Attempt attempt = open_save_prune(vfs, 2, 2);
  vfs.fault = nullptr;
  const size_t operations = vfs.operations() - first;
  const std::string what =
      fmt::format("{} at operation {}{}: ", name_of(fault), at, stays ? " and all after it" : "");
  EXPECT_TRUE(attempt.saved || !attempt.error.empty()) << what;
  const History history{.begun = 2, .acked = attempt.saved ? 2U : 1U};
  EXPECT_EQ(check_load(vfs, history, false), "") << what << attempt.error;
  // The model treats the other errors alike but for their words.
  const bool own_effect = fault == Fault::kEio || fault == Fault::kDoneButFailed;
  for (uint64_t seed = 0; seed < (own_effect ? 6 : 1); ++seed) {
    RandomChooser chooser(seed + at * 100);
    const auto after = vfs.after_power_cut(chooser);
    EXPECT_EQ(check_load(*after, history, false), "") << what << attempt.error << ", seed " << seed;
  }
  const Attempt later = open_save_prune(vfs, 3, 3);
  EXPECT_TRUE(later.saved) << what << later.error;
  EXPECT_EQ(later.error, "") << what;
  EXPECT_EQ(check_load(vfs, {.begun = 3, .acked = 3}, false), "") << what;
  return operations;
}

TEST(Faults, EveryOperationMayFailOnce) {
  size_t tried = 0;
  for (const Fault fault : {Fault::kEio, Fault::kEnospc, Fault::kEdquot, Fault::kEstale,
                            Fault::kShortWrite, Fault::kDoneButFailed}) {
    for (size_t at = 0; at < check_fault(fault, at, false) && !HasFailure(); ++at) ++tried;
  }
  std::printf("%zu faults\n", tried);
  EXPECT_GT(tried, 500U);
}

TEST(Faults, StorageMayFailForGoodFromAnyOperation) {
  for (size_t at = 0; at < check_fault(Fault::kEio, at, true) && !HasFailure(); ++at) {
  }
}

// A load may take the older one or say why it cannot; it never takes what is not there.
TEST(Faults, EveryOperationOfALoadMayFail) {
  ModelVfs vfs;
  EXPECT_TRUE(open_save_prune(vfs, 1, 1).saved);
  const auto fence = open_root(vfs, kRoot, "run", 2);
  ASSERT_TRUE(fence.ok());
  ASSERT_TRUE(run_save(vfs, *fence, {.step = 2, .generation = 2}, {.salt = 2}).ok());
  for (const Fault fault : {Fault::kEio, Fault::kEstale}) {
    size_t tried = 0;
    bool failed = true;
    for (size_t at = 0; failed; ++at) {
      const size_t first = vfs.operations();
      vfs.fault = [&](size_t number) { return number - first == at ? fault : Fault::kNone; };
      const auto loaded = load_newest(vfs, kRoot);
      vfs.fault = nullptr;
      failed = vfs.operations() - first > at;
      tried += failed ? 1 : 0;
      const std::string what = fmt::format("{} at operation {}", name_of(fault), at);
      if (!loaded.ok()) {
        EXPECT_NE(loaded.error().message.find(fault == Fault::kEio ? "error" : "Stale"),
                  std::string::npos)
            << what << ": " << loaded.error().message;
        continue;
      }
      ASSERT_TRUE(loaded->salt.has_value()) << what;
      EXPECT_EQ(*loaded->salt, loaded->skipped.empty() ? 2U : 1U) << what;
    }
    EXPECT_GT(tried, 15U);
  }
}

TEST(Faults, AFullDiskIsSaidByItsName) {
  ModelVfs vfs;
  const auto fence = open_root(vfs, kRoot, "run", 1);
  ASSERT_TRUE(fence.ok());
  const CheckpointId id{.step = 1, .generation = 1};
  ASSERT_TRUE(make_in_progress(vfs, *fence, id).ok());
  vfs.fault = [](size_t) { return Fault::kEnospc; };
  const auto written = write_image(vfs, kRoot + "/" + in_progress_name(id), "state/rank-00000.json",
                                   0, "{}", {}, {.direct = false});
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("No space left on device"), std::string::npos)
      << written.error().message;
  EXPECT_NE(written.error().message.find("state/rank-00000.json"), std::string::npos);
}

TEST(Faults, AFileWhoseSyncFailedIsGone) {
  ModelVfs vfs;
  const auto fence = open_root(vfs, kRoot, "run", 1);
  ASSERT_TRUE(fence.ok());
  const CheckpointId id{.step = 1, .generation = 1};
  ASSERT_TRUE(make_in_progress(vfs, *fence, id).ok());
  const std::string directory = kRoot + "/" + in_progress_name(id);
  const size_t first = vfs.operations();
  vfs.fault = [&](size_t n) { return n == first + 2 ? Fault::kEio : Fault::kNone; };
  const auto written =
      write_image(vfs, directory, "state/rank-00000.json", 0, "{}", {}, {.direct = false});
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("syncing"), std::string::npos) << written.error().message;
  EXPECT_FALSE(vfs.info(directory + "/state/rank-00000.json")->exists);
}

}  // namespace
}  // namespace shanty::ckpt
