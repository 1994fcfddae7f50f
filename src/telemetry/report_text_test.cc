#include "telemetry/report_text.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Report sample() {
  Report report;
  report.job_name = "resnet-train";
  report.outcome = "failed";
  report.reason = "the same failure at the same step twice: rank 1 exited with code 3";
  report.nodes = 2;
  report.world_size = 2;
  report.generations = 9;
  for (uint64_t i = 0; i < 9; ++i) {
    report.failures.push_back({.generation = i + 1,
                               .rank = 1,
                               .node = "a-node-with-a-long-name",
                               .reason = "exited with code 3",
                               .first_error = "ValueError: \x1b[2J boom\nmore lines",
                               .has_step = true,
                               .step = 60});
  }
  report.wall_time_s = 100;
  report.useful_time_s = 75;
  report.losses = {{"start-up", 15}, {"waiting for nodes", 0}, {"repeated work", 10}};
  report.has_steps = true;
  report.steps = 5000;
  report.repeated_steps = 120;
  report.samples_per_s = 1234.4;
  report.final_loss = 2.31;
  report.checkpoints_saved = 4;
  report.logs = "/a/rather/long/path/to/the/directory/of/a/run/that/nobody/would/type/logs";
  report.notes = {"one", "two", "three", "four", "five"};
  return report;
}

TEST(ReportText, TellsWhatHappenedInFewLinesOfTheWidth) {
  const std::string text = render_report(sample(), {.width = 60});
  EXPECT_THAT(text, HasSubstr("resnet-train failed after"));
  EXPECT_THAT(text, HasSubstr("and 5 earlier"));
  EXPECT_THAT(text, HasSubstr("75.0 %"));
  EXPECT_THAT(text, HasSubstr("repeated work"));
  EXPECT_THAT(text, Not(HasSubstr("waiting for nodes")));
  EXPECT_THAT(text, HasSubstr("5000 steps and 120 done again, 1,234 samples/s, loss 2.31"));
  EXPECT_THAT(text, HasSubstr(sample().logs));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
  size_t start = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    const std::string line = text.substr(start, end - start);
    if (line.find("logs in") == std::string::npos) {
      EXPECT_LE(line.size(), 60U) << line;
    }
    start = end + 1;
  }
}

TEST(ReportText, ARunWithNothingInItIsStillTold) {
  Report report;
  report.job_name = "x";
  report.outcome = "died";
  report.reason = "no end was recorded";
  const std::string text = render_report(report, {});
  EXPECT_THAT(text, HasSubstr("x died after"));
  EXPECT_THAT(text, HasSubstr("no end was recorded"));
  EXPECT_THAT(text, HasSubstr("no steps were seen"));
}

TEST(ReportText, PaintsOnlyWhenAsked) {
  EXPECT_THAT(render_report(sample(), {.colour = true, .utf8 = true}), HasSubstr("\x1b[31m"));
  EXPECT_THAT(render_report(sample(), {.utf8 = true}), HasSubstr("█"));
}

}  // namespace
}  // namespace shanty
