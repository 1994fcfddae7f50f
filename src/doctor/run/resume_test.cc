#include "doctor/run/resume.h"

#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/diagnose.h"
#include "doctor/run/step_lines.h"

namespace shanty {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A loss that falls from 10 as training goes on, and a rate that warms up and decays.
double loss_at(uint64_t step) {
  return 1 + 9 * std::exp(-0.02 * static_cast<double>(step)) +
         0.01 * static_cast<double>(step * 7 % 5);
}
double rate_at(uint64_t step) { return 1e-3 * std::min(1.0, (static_cast<double>(step) + 1) / 50); }

Stretch stretch(uint64_t from, uint64_t to, uint64_t loss_from, uint64_t rate_from) {
  Stretch out{.title = "generation " + std::to_string(from == 0 ? 1 : 2),
              .file = "log",
              .counted_from_start = true};
  for (uint64_t step = from; step < to; ++step) {
    out.points.push_back({.step = step,
                          .loss = loss_at(loss_from + step - from),
                          .lr = rate_at(rate_from + step - from),
                          .samples_hash = step + 1,
                          .line = step + 1});
  }
  return out;
}

std::vector<std::string> codes(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings) out.push_back(finding.code);
  return out;
}

TEST(Resume, AJobThatGoesOnRightIsQuiet) {
  const Stretch before = stretch(0, 200, 0, 0);
  EXPECT_THAT(audit_resume(before, before, stretch(200, 300, 200, 200)), IsEmpty());
  EXPECT_THAT(audit_resume(before, before, stretch(150, 300, 150, 150)), IsEmpty());
}

TEST(Resume, ALossThatIsBackAtTheBeginningMeansNoWeights) {
  const Stretch before = stretch(0, 200, 0, 0);
  const auto findings = audit_resume(before, before, stretch(200, 300, 0, 200));
  ASSERT_THAT(codes(findings), ElementsAre("RES101"));
  EXPECT_THAT(findings[0].message, HasSubstr("weights were not loaded"));
}

TEST(Resume, ALossThatJumpsALittleLacksSomething) {
  const Stretch before = stretch(0, 200, 0, 0);
  const auto findings = audit_resume(before, before, stretch(200, 300, 100, 200));
  ASSERT_THAT(codes(findings), ElementsAre("RES101"));
  EXPECT_THAT(findings[0].message, HasSubstr("not all that belongs to them"));
  EXPECT_THAT(findings[0].ruled_out.back(), HasSubstr("cannot tell"));
}

TEST(Resume, ARateThatWarmsUpAgainIsReset) {
  const Stretch before = stretch(0, 200, 0, 0);
  const auto findings = audit_resume(before, before, stretch(200, 300, 200, 0));
  ASSERT_THAT(codes(findings), ElementsAre("RES102"));
  EXPECT_THAT(findings[0].message, HasSubstr("begins anew"));
}

TEST(Resume, TheSameSamplesAgainMeanAFreshSampler) {
  const Stretch before = stretch(0, 200, 0, 0);
  Stretch after = stretch(200, 300, 200, 200);
  for (size_t i = 0; i < after.points.size(); ++i) after.points[i].samples_hash = i + 1;
  EXPECT_THAT(codes(audit_resume(before, before, after)), ElementsAre("RES103"));
}

TEST(Resume, StepsLeftOutAreTold) {
  const Stretch before = stretch(0, 200, 0, 0);
  const auto findings = audit_resume(before, before, stretch(230, 300, 230, 230));
  ASSERT_THAT(codes(findings), ElementsAre("RES104"));
  EXPECT_THAT(findings[0].message, HasSubstr("200 to 229 were never done"));
}

TEST(Resume, AJobThatBeginsAgainDespiteItsCheckpointIsTold) {
  Stretch before = stretch(0, 200, 0, 0);
  before.has_checkpoint = true;
  before.checkpoint_step = 150;
  const auto findings = audit_resume(before, before, stretch(0, 100, 0, 0));
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].code, "RES104");
  EXPECT_EQ(findings[0].severity, Severity::kError);
  EXPECT_THAT(findings[0].message, HasSubstr("nothing was loaded"));
}

TEST(Resume, AnOlderCheckpointIsTold) {
  Stretch before = stretch(0, 200, 0, 0);
  before.has_checkpoint = true;
  before.checkpoint_step = 150;
  EXPECT_THAT(codes(audit_resume(before, before, stretch(51, 100, 51, 51))), ElementsAre("RES104"));
}

TEST(Resume, AnotherWorldAndBatchAndVersionAreTold) {
  Stretch before = stretch(0, 200, 0, 0);
  Stretch after = stretch(200, 300, 200, 200);
  before.world_size = 8;
  after.world_size = 4;
  before.batch = after.batch = 256;
  before.versions["torch"] = "2.15.0";
  after.versions["torch"] = "2.14.1";
  auto findings = audit_resume(before, before, after);
  ASSERT_THAT(codes(findings), ElementsAre("RES105", "RES106"));
  EXPECT_EQ(findings[0].severity, Severity::kNote);  // the batch is the same
  after.batch = 128;
  findings = audit_resume(before, before, after);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_THAT(findings[1].message, HasSubstr("torch 2.14.1 instead of 2.15.0"));
}

TEST(Resume, FewLossesSayNothing) {
  const Stretch before = stretch(0, 200, 0, 0);
  EXPECT_THAT(audit_resume(before, before, stretch(200, 204, 0, 200)), IsEmpty());
}

std::string log_of(uint64_t from, uint64_t to, uint64_t loss_from, uint64_t rate_from) {
  std::string text = "starting\n";
  for (uint64_t step = from; step < to; ++step) {
    text += "step " + std::to_string(step) +
            "/1000 loss=" + std::to_string(loss_at(loss_from + step - from)) +
            " lr=" + std::to_string(rate_at(rate_from + step - from)) + "\n";
  }
  return text;
}

// The codes that a diagnosis of these logs, in this order, gives.
std::vector<Finding> audit_logs(const std::vector<std::pair<std::string, std::string>>& logs) {
  std::vector<std::string> paths;
  for (const auto& [name, text] : logs) {
    paths.push_back(testing::TempDir() + "/" + name);
    std::ofstream(paths.back()) << text;
  }
  const auto files = gather_case(paths);
  EXPECT_TRUE(files.ok());
  return diagnose(*files, {}).findings;
}

TEST(Resume, TwoLogsAreAudited) {
  const std::string before = log_of(0, 200, 0, 0);
  EXPECT_THAT(audit_logs({{"a.log", before}, {"b.log", log_of(200, 300, 200, 200)}}), IsEmpty());
  const auto findings = audit_logs({{"a.log", before}, {"b.log", log_of(200, 300, 0, 0)}});
  ASSERT_THAT(codes(findings), UnorderedElementsAre("RES101", "RES102"));
  for (const Finding& finding : findings) {
    EXPECT_THAT(finding.evidence[1].file, EndsWith("b.log"));
    EXPECT_EQ(finding.evidence[1].line, 2U);
  }
}

TEST(Resume, ALineInOneLogMarksAStart) {
  const std::string before = log_of(0, 200, 0, 0);
  const std::string long_one = log_of(0, 3000, 0, 0);
  EXPECT_THAT(codes(audit_logs({{"long.log", long_one + "resuming from step 3000\n" +
                                                 log_of(3000, 6000, 3000, 0)}})),
              ElementsAre("RES102"));
  const std::string line = "resuming from checkpoint step-200\n";
  EXPECT_THAT(audit_logs({{"a.log", before + line + log_of(200, 300, 200, 200)}}), IsEmpty());
  EXPECT_THAT(codes(audit_logs({{"a.log", before + line + log_of(200, 300, 200, 0)}})),
              ElementsAre("RES102"));
}

TEST(Resume, LogsOfTwoNodesDoNotGoOnWithEachOther) {
  const std::string one = log_of(0, 200, 0, 0);
  EXPECT_THAT(audit_logs({{"a.log", one}, {"b.log", one}}), IsEmpty());
}

struct LineCase {
  const char* line;
  uint64_t step;
  double loss;
  double lr;
  double step_s;
};

TEST(StepLines, AreReadInManyTongues) {
  const double none = StepLine::kUnknown;
  const LineCase cases[] = {
      {"step=12 loss=2.5 lr=0.001 step_time_ms=81.5", 12, 2.5, 0.001, 0.0815},
      {"[rank0] Step 12/100: loss 2.5", 12, 2.5, none, none},
      {"step: 12, loss: 2.5000, lr: 1.00e-03", 12, 2.5, 1e-3, none},
      {" iteration      12/     500 | consumed samples: 3072 | elapsed time per iteration (ms): "
       "812.3 | "
       "learning rate: 1.500000E-04 | global batch size: 256 | lm loss: 2.500000E+00 |",
       12, 2.5, 1.5e-4, 0.8123},
      {"train:  12/500 [00:04<02:41, 4.00it/s, loss=2.5]", 12, 2.5, none, 0.25},
      {" 12/500 [00:04<02:41,  2.50s/it]", 12, none, none, 2.5},
      {R"({"step": 12, "train_loss": 2.5, "lr": 0.001, "step_time": 0.5})", 12, 2.5, 0.001, 0.5},
      {"Iter [12/500] time: 0.25 s, loss: 2.5", 12, 2.5, none, none},
      {"Epoch: [2][ 12/500]\tTime 0.4 (0.4)\tLoss 2.5 (2.6)", 1012, 2.5, none, none},
      {"global_step=12 val_loss=9.0 loss=2.5", 12, 2.5, none, none},
  };
  for (const LineCase& one : cases) {
    const auto told = parse_step_line(one.line);
    ASSERT_TRUE(told) << one.line;
    EXPECT_TRUE(told->has_step) << one.line;
    EXPECT_EQ(told->step, one.step) << one.line;
    const auto same = [&](double a, double b) {
      return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) < 1e-9;
    };
    EXPECT_PRED2(same, told->loss, one.loss) << one.line;
    EXPECT_PRED2(same, told->lr, one.lr) << one.line;
    EXPECT_PRED2(same, told->step_s, one.step_s) << one.line;
  }
  const auto hf =
      parse_step_line("{'loss': 2.5, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}");
  ASSERT_TRUE(hf);
  EXPECT_EQ(hf->loss, 2.5);
  EXPECT_EQ(hf->lr, 5e-5);
  EXPECT_FALSE(hf->has_step);
  EXPECT_NE(parse_step_line("step=1 loss=1 ids=[3, 17]")->samples_hash,
            parse_step_line("step=1 loss=1 ids=[3, 18]")->samples_hash);
}

TEST(StepLines, OtherLinesTellNothing) {
  for (const char* line :
       {"", "Traceback (most recent call last):", "  File \"train.py\", line 29, in <module>",
        "2026-11-30 04:29:22 INFO starting", "NCCL INFO Channel 00/02 : 0 1 2 3"}) {
    EXPECT_FALSE(parse_step_line(line)) << line;
  }
}

}  // namespace
}  // namespace shanty
