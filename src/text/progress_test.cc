#include "text/progress.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return {ns}; }
  int64_t unix_time_ns() const override { return ns; }
  int64_t ns = 1'000'000'000'000;
};

Progress sample() {
  return {.state = "running",
          .text = "",
          .has_step = true,
          .step = 811,
          .total_steps = 5000,
          .loss = 2.31,
          .samples_per_s = 1234,
          .step_s = 0.081,
          .restarts = 1};
}

TEST(FormatProgress, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(format_progress(sample(), 200),
            "step 811/5000 16% loss 2.31 | 1,234 samples/s | 81 ms/step | ETA 5 min 39 s | "
            "restarts 1");
}

TEST(FormatProgress, GivesUpTheLeastFirst) {
  EXPECT_EQ(format_progress(sample(), 72),
            "step 811/5000 loss 2.31 | 1,234 samples/s | ETA 5 min 39 s | restarts 1");
  EXPECT_EQ(format_progress(sample(), 30), "step 811/5000 | restarts 1");
  EXPECT_EQ(format_progress(sample(), 8), "step 811");
}

TEST(FormatProgress, LeavesOutWhatIsUnknown) {
  Progress progress{
      .state = "running", .has_step = true, .step = 3, .loss = kNan, .samples_per_s = kNan};
  EXPECT_EQ(format_progress(progress, 80), "step 3");
}

TEST(FormatProgress, ShowsWhatIsWaitedFor) {
  EXPECT_EQ(format_progress({.state = "waiting", .text = "node 1 of 2 is missing"}, 80),
            "waiting: node 1 of 2 is missing");
}

class ProgressLineTest : public ::testing::Test {
 protected:
  ProgressLine line(bool tty) {
    return ProgressLine([tty] { return TerminalTraits{.tty = tty, .width = 40}; }, clock_,
                        [this](std::string_view bytes) { text_ += bytes; });
  }
  FakeClock clock_;
  std::string text_;
};

TEST_F(ProgressLineTest, IsTakenAwayForOtherLinesAndDrawnAgain) {
  ProgressLine progress = line(true);
  progress.update(sample());
  text_.clear();
  progress.print("a log line\n");
  EXPECT_EQ(text_.rfind("\r\x1b[Ka log line\n\r\x1b[Kstep 811", 0), 0U) << text_;
  text_.clear();
  progress.finish();
  EXPECT_EQ(text_, "\r\x1b[K");
  progress.update(sample());
  EXPECT_EQ(text_, "\r\x1b[K");
}

TEST_F(ProgressLineTest, NeverFillsTheLastColumn) {
  ProgressLine progress = line(true);
  progress.update({.state = "waiting", .text = std::string(100, 'x')});
  EXPECT_EQ(text_.size(), std::string("\r\x1b[K").size() + 39);
}

TEST_F(ProgressLineTest, IsRedrawnAtMostTenTimesASecond) {
  ProgressLine progress = line(true);
  progress.update(sample());
  text_.clear();
  progress.update(sample());
  EXPECT_EQ(text_, "");
  clock_.ns += 100'000'000;
  progress.update(sample());
  EXPECT_THAT(text_, HasSubstr("step 811"));
}

TEST_F(ProgressLineTest, WithoutATerminalItIsALineNowAndThen) {
  ProgressLine progress = line(false);
  progress.update(sample());
  clock_.ns += 9'000'000'000;
  progress.update(sample());
  progress.print("log\n");
  clock_.ns += 1'000'000'000;
  progress.update(sample());
  Progress changed = sample();
  changed.state = "restarting";
  progress.update(changed);
  const std::string whole = std::string("shanty ..:..:..  step 811/5000 .* restarts 1\n");
  EXPECT_THAT(text_,
              MatchesRegex(whole + "log\n" + whole + "shanty ..:..:..  restarting . restarts 1\n"));
}

TEST(CutToWidth, CutsTextAndKeepsColoursWhole) {
  EXPECT_EQ(cut_to_width("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mabc\x1b[0m");
  EXPECT_EQ(cut_to_width("abc", 10), "abc");
  EXPECT_EQ(cut_to_width("a\xe4\xb8\xadxyz", 2), "a");
}

}  // namespace
}  // namespace shanty
