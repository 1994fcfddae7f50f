// Which checkpoints stay.

#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    for (const Listed& listed : list_checkpoints(vfs_, kRoot).value()) out.insert(listed.id.step);
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

TEST_F(PruneTest, AGivenRuleTakesTheNewestsPlace) {
  for (uint64_t step = 1; step <= 4; ++step) save_with_loss(step, fmt::format("0.{}", step));
  PruneOptions options = keep_newest(vfs_, 1);
  options.best = {.metric = "loss", .highest = true, .keep = 2};
  ASSERT_TRUE(prune(vfs_, kRoot, options).ok());
  EXPECT_THAT(steps(), ElementsAre(3, 4));
}

}  // namespace
}  // namespace shanty::ckpt
