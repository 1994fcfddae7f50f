#include "cli/top_view.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1000 * kSecond;

RankTelemetry rank_at(int rank, uint64_t step) {
  RankTelemetry t;
  t.rank = rank;
  t.pid = 4000 + rank;
  t.alive = t.hooked = t.has_step = true;
  t.step = step;
  t.phase = "backward";
  t.phase_since_unix_ns = kNow - 2 * kSecond;
  t.step_s = 0.1;
  t.data_s = 0.02;
  t.forward_s = 0.03;
  t.backward_s = 0.04;
  t.optimizer_s = 0.005;
  t.samples_per_s = t.loss = std::numeric_limits<double>::quiet_NaN();
  t.rss_bytes = 512 << 20;
  t.cpu_cores = 1.5;
  return t;
}

LiveState live_with(int count) {
  LiveState live{
      .unix_ns = kNow, .state = "running", .generation = 1, .nodes = 1, .world_size = count};
  for (int i = 0; i < count; ++i) live.ranks.push_back(rank_at(i, 100 + static_cast<uint64_t>(i)));
  return live;
}

RunSummary running() {
  return {.run_id = "r",
          .job_name = "train",
          .state = "running",
          .started_unix_ns = kNow - kSecond,
          .generation = 1,
          .world_size = 2};
}

std::string line_with(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const size_t start = text.rfind('\n', at) + 1;
  return text.substr(start, text.find('\n', at) - start);
}

TEST(TopView, ShowsWhatEachRankDoesAndSplitsItsStep) {
  const std::string text = render_top(running(), live_with(2), kNow, {.width = 200});
  const std::string row = line_with(text, "4001");
  for (const char* part :
       {"backward 2.0 s", "101", "100", "20.0", "30.0", "40.0", "5.0", "512.0 MiB", "150%"}) {
    EXPECT_THAT(row, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(TopView, GivesUpColumnsUntilItFits) {
  for (const size_t width : {30U, 50U, 60U, 80U, 100U}) {
    const std::string text = render_top(running(), live_with(3), kNow, {.width = width});
    size_t start = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
      EXPECT_LE(end - start, width) << text;
      start = end + 1;
    }
    EXPECT_THAT(text, HasSubstr("STEP"));
  }
}

TEST(TopView, OfManyRanksTheSlowestComeFirst) {
  LiveState live = live_with(70);
  live.ranks[50].step = 7;
  live.ranks[60].alive = false;
  const std::string text = render_top(running(), live, kNow, {.width = 200, .max_ranks = 10});
  EXPECT_LT(text.find("4060"), text.find("4050"));
  EXPECT_LT(text.find("4050"), text.find("4000"));
  EXPECT_THAT(text, HasSubstr("and 60 faster ranks at steps 108 to 169, 100 ms/step on average"));
}

TEST(TopView, UnknownStepTimesAreNoTrouble) {
  LiveState live = live_with(70);
  for (size_t i = 0; i < live.ranks.size(); i += 2) {
    live.ranks[i].step = 100;
    live.ranks[i].step_s = std::numeric_limits<double>::quiet_NaN();
  }
  EXPECT_FALSE(render_top(running(), live, kNow, {.width = 200, .max_ranks = 10}).empty());
}

TEST(TopView, SaysWhenTheCoordinatorIsSilent) {
  EXPECT_THAT(render_top(running(), live_with(1), kNow + 9 * kSecond, {}),
              HasSubstr("no word from the coordinator for 9.0 s"));
}

TEST(TopView, AJobThatHasNotFormedHasNoRanks) {
  RunSummary waiting = running();
  waiting.state = "waiting";
  waiting.text = "node 1 of 2 is missing";
  const std::string text = render_top(waiting, {}, kNow, {});
  EXPECT_THAT(text, HasSubstr("waiting: node 1 of 2 is missing"));
  EXPECT_THAT(text, Not(HasSubstr("RANK")));
}

}  // namespace
}  // namespace shanty
