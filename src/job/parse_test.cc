#include "job/parse.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shanty {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kSketch = R"(job: resnet-train
run:      {script: train.py, args: [--config, config.yaml], framework: ddp, image: reg/train:2}
nodes:    2                      # or {min: 2, max: 4}: elastic
gpus_per_node: 8
gpu:      {model: a100-80g}
network:  {rdma: auto, interface: auto, host_network: auto}
batch:    {per_gpu: 32, base_lr: 0.1, base_batch: 256, scaling: auto, warmup: 5%}
loader:   {workers: auto, prefetch: 4, shm: auto}
data:     [{claim: dataset-rox, mount: /mnt/data, read_only: true, stage: /nvme}]
checkpoint: {claim: ckpt-rwx, mount: /mnt/ckpt, every: auto, keep: 3, milestones: 10000}
schedule: {namespace: ml, queue: team-a, gang: auto, topology: rack, priority: normal}
restart:  {max: 10, window: 1h, warm: true, hang_after: auto}
model:    {params: 2e9}
)";

std::vector<std::string> problems(std::string_view text) {
  std::vector<std::string> out;
  for (const Diagnostic& d : parse_job(text, "job.yaml").diagnostics) {
    out.push_back(format_diagnostic(d));
  }
  return out;
}

// The problems of a file that is right but for `lines`.
std::vector<std::string> problems_with(std::string_view lines) {
  return problems("run: {script: t.py}\n" + std::string(lines));
}

TEST(Job, DesignSketchIsAccepted) {
  const ParsedJob parsed = parse_job(kSketch, "job.yaml");
  ASSERT_TRUE(parsed.ok()) << format_diagnostics(parsed.diagnostics, kSketch, {});
  const Job& job = parsed.job;
  EXPECT_EQ(job.name, "resnet-train");
  EXPECT_THAT(job.run.args, ElementsAre("--config", "config.yaml"));
  EXPECT_EQ(job.nodes, (NodeRange{2, 2}));
  EXPECT_EQ(job.batch.per_gpu, 32u);
  EXPECT_DOUBLE_EQ(job.batch.warmup.share, 0.05);
  EXPECT_EQ(job.loader.workers, std::nullopt);
  ASSERT_EQ(job.data.size(), 1u);
  EXPECT_EQ(job.data[0].stage, "/nvme");
  EXPECT_EQ(job.schedule.k8s_namespace, "ml");
  EXPECT_DOUBLE_EQ(job.restart.window_s, 3600);
  EXPECT_EQ(job.model.params, 2e9);
}

TEST(Job, ScriptAloneIsEnough) {
  const ParsedJob parsed = parse_job("run: {script: src/train net.py}\n", "job.yaml");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.job.name, "train-net");
  EXPECT_EQ(parsed.job.restart.max, 10u);
  EXPECT_DOUBLE_EQ(parsed.job.restart.grace_s, 15);
  EXPECT_DOUBLE_EQ(parsed.job.restart.rejoin_s, 1800);
}

TEST(Job, UnknownKeyIsLocatedAndNamesTheNearest) {
  EXPECT_THAT(problems("run: {script: t.py}\ngpu_per_node: 8\n"),
              ElementsAre("job.yaml:2:1: unknown key \"gpu_per_node\", did you mean "
                          "\"gpus_per_node\"?"));
  EXPECT_THAT(problems_with("batch:\n  per-gpu: 8\n"),
              ElementsAre("job.yaml:3:3: unknown key \"per-gpu\", did you mean \"per_gpu\"?"));
}

TEST(Job, KeyInTheWrongSectionIsSentToTheRightOne) {
  EXPECT_THAT(problems_with("prefetch: 8\n"),
              ElementsAre("job.yaml:2:1: unknown key \"prefetch\" here, did you mean "
                          "\"loader.prefetch\"?"));
}

TEST(Job, AllProblemsOfAFileAreReportedInReadingOrder) {
  EXPECT_THAT(
      problems("nodes: two\nrun:\n  script: t.py\n  framework: dpd\n"
               "gpus_per_node: 0\nstepz: 5\nnodes: 3\nrestart: {window: 5x}\n"),
      ElementsAre(
          "job.yaml:1:8: nodes: expected a whole number, 1 to 100,000, found \"two\"",
          "job.yaml:4:14: run.framework: expected one of ddp, fsdp, other, found \"dpd\", did you "
          "mean \"ddp\"?",
          "job.yaml:5:16: gpus_per_node is 0, expected 1 to 1,024",
          "job.yaml:6:1: unknown key \"stepz\", did you mean \"steps\"?",
          "job.yaml:7:1: duplicate key \"nodes\", first given in line 1",
          "job.yaml:8:19: restart.window: expected a duration such as 90, 30s, 15m, 1h30m or 2d, "
          "found \"5x\""));
}

TEST(Job, NumbersAreCheckedBeforeTheyAreUsed) {
  for (const char* value : {"1e400", "-1", ".nan", ".inf", "1.5", "0", "99999999999999999999999",
                            "0x10", "true", "[1]", "{a: 1}", "''", "~", "\"\""}) {
    EXPECT_EQ(problems_with(std::string("gpus_per_node: ") + value).size(), 1u) << value;
  }
  EXPECT_TRUE(problems_with("steps: 1e6\n").empty());
  EXPECT_TRUE(problems_with("steps: 100k\n").empty());
}

TEST(Job, WrongShapesAreNamed) {
  EXPECT_THAT(problems_with("batch: 32\n"),
              ElementsAre("job.yaml:2:8: batch: expected a mapping, found \"32\""));
  EXPECT_THAT(problems("run: train.py\n"),
              ElementsAre("job.yaml:1:6: run: expected a mapping, found \"train.py\""));
  EXPECT_THAT(problems_with("data: {claim: a, mount: /m}\n"),
              ElementsAre("job.yaml:2:7: data: expected a list of mappings, found a mapping"));
  EXPECT_THAT(problems("run: {script: t.py, args: --x}\n"),
              ElementsAre(HasSubstr("expected a list of texts")));
  EXPECT_THAT(problems("[run]\n"), ElementsAre(HasSubstr("expected a mapping of keys")));
  EXPECT_THAT(problems(""), ElementsAre("job.yaml: the file is empty"));
  EXPECT_THAT(problems_with("loader:\n  prefetch:\n"),
              ElementsAre(HasSubstr("loader.prefetch has no value, expected a whole number")));
}

TEST(Job, ImpossibleCombinationsAreLocated) {
  EXPECT_THAT(problems("nodes: 1\n"), ElementsAre(HasSubstr("run.script is missing")));
  EXPECT_THAT(problems("run: {scirpt: t.py}\n"),
              ElementsAre("job.yaml:1:7: unknown key \"scirpt\", did you mean \"script\"?"));
  EXPECT_THAT(problems("run: {script: a.py, module: b}\n"),
              ElementsAre("job.yaml:1:29: run.script and run.module exclude each other"));
  EXPECT_THAT(problems_with("nodes: {min: 4, max: 2}\n"),
              ElementsAre("job.yaml:2:8: nodes: min 4 is more than max 2"));
  EXPECT_THAT(problems_with("nodes: {min: 2, max: 4}\n"),
              ElementsAre("job.yaml:2:8: elastic worlds are not supported yet"));
  EXPECT_THAT(problems_with("nodes: {min: 2}\n"),
              ElementsAre("job.yaml:2:8: nodes: expected both min and max"));
  EXPECT_THAT(problems_with("batch: {base_lr: 0.1}\n"),
              ElementsAre(HasSubstr("job.yaml:2:18: batch.base_lr needs batch.base_batch")));
  EXPECT_TRUE(problems_with("batch: {base_lr: 0.1, scaling: none}\n").empty());
  EXPECT_THAT(
      problems_with("batch: {warmup: 100}\nsteps: 50\n"),
      ElementsAre("job.yaml:2:17: batch.warmup: 100 steps of warm-up in a run of 50 steps"));
  EXPECT_THAT(problems_with("checkpoint: {claim: c}\n"),
              ElementsAre(HasSubstr("job.yaml:2:21: checkpoint.claim needs checkpoint.mount")));
  EXPECT_THAT(problems_with("checkpoint: {claim: c, mount: /m, dir: /mm/x}\n"),
              ElementsAre(HasSubstr("lies outside checkpoint.mount")));
  EXPECT_TRUE(problems_with("checkpoint: {claim: c, mount: /m, dir: /m/x}\n").empty());
  EXPECT_THAT(problems_with("checkpoint: {every: 30s, cost: 1m}\n"),
              ElementsAre(HasSubstr("leaves no time to train")));
  EXPECT_THAT(problems_with("failures: {per_day: 1, mtbf: 1d}\n"),
              ElementsAre("job.yaml:2:30: failures.per_day and failures.mtbf say the same thing"));
  EXPECT_THAT(problems_with("loader: {workers: 0, prefetch: 2}\n"),
              ElementsAre(HasSubstr("loader.prefetch needs loader processes")));
  EXPECT_THAT(problems_with("data: [{claim: a, mount: /m}, {claim: b, mount: /m}]\n"),
              ElementsAre("job.yaml:2:49: data: \"/m\" is already a mount, see line 2"));
  EXPECT_THAT(problems_with("data: [{mount: /m}]\n"),
              ElementsAre("job.yaml:2:8: data: claim is missing"));
  EXPECT_THAT(problems_with("data: [{claim: a, mount: m}]\n"),
              ElementsAre(HasSubstr("data[].mount: expected an absolute path")));
  EXPECT_THAT(problems("run: {module: m, no_python: true}\n"),
              ElementsAre(HasSubstr("run.no_python needs run.script")));
}

TEST(Job, VariablesThatDifferByRankCannotBeSet) {
  EXPECT_THAT(problems("run: {script: t.py, env: {RANK: 0, OK: 1, 2BAD: x}}\n"),
              ElementsAre(HasSubstr("job.yaml:1:27: run.env: RANK differs from rank to rank"),
                          HasSubstr("job.yaml:1:43: run.env: \"2BAD\" is not the name")));
}

TEST(Job, NamesAreChecked) {
  EXPECT_THAT(problems_with("job: -x\n"), ElementsAre(HasSubstr("job.yaml:2:6: job: \"-x\"")));
  EXPECT_THAT(problems_with("job: " + std::string(64, 'a')).size(), 1u);
  EXPECT_TRUE(problems_with("job: 2024.run_1\n").empty());
}

TEST(Job, WarningsDoNotRefuseTheFile) {
  const ParsedJob parsed =
      parse_job("run: {script: t.py}\nnodes: 2\nschedule: {gang: false}\n", "job.yaml");
  EXPECT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.diagnostics.size(), 1u);
}

TEST(Job, ReportsAreLimited) {
  std::string text = "run: {script: t.py}\n";
  for (int i = 0; i < 3000; ++i) text += "unknown_thing_" + std::to_string(i) + ": 1\n";
  const ParsedJob parsed = parse_job(text, "job.yaml");
  EXPECT_EQ(parsed.diagnostics.size(), kMaxJobDiagnostics + 1);
  EXPECT_EQ(parsed.diagnostics.back().message, "2900 more problems are not shown");
  EXPECT_FALSE(parsed.ok());
}

TEST(Job, SerializedJobReadsBackEqual) {
  for (const std::string_view text :
       {kSketch, std::string_view("run: {module: a.b}\n"),
        std::string_view(
            "run: {script: 'a b.py', env: {A: \"x\\ny\", B: 'null'}, args: [-1, 'auto', "
            "\"\xc3\xa4\"]}\n"
            "batch: {warmup: 7%, base_lr: 3e-4, base_batch: 8, scaling: sqrt}\n"
            "network: {rdma: true, bandwidth: 25Gbit/s, interface: eth0}\nfailures: {mtbf: 1.5d}\n"
            "loader: {workers: 0, shm: 1.5Gi}\ncheckpoint: {dir: c, every: 90s, cost: 0.25}\n"
            "restart: {warm: false, hang_after: 5m, grace: 0.1}\n"
            "model: {params: 7B, dtype: bf16, optimizer: sgd}\ndata:\n"
            "- {claim: a, mount: /a}\n- {claim: b, mount: /b, read_only: false}\n")}) {
    const ParsedJob first = parse_job(text, "a");
    ASSERT_TRUE(first.ok()) << format_diagnostics(first.diagnostics, text, {});
    const std::string json = serialize_job(first.job);
    const ParsedJob second = parse_job(json, "b");
    ASSERT_TRUE(second.ok()) << format_diagnostics(second.diagnostics, json, {});
    EXPECT_EQ(first.job, second.job) << json;
  }
}

TEST(Job, WhatIsWrittenGivesNoWarningThatWasNotThere) {
  const ParsedJob first = parse_job("run: {script: t.py}\nloader: {workers: 0}\n", "a");
  EXPECT_TRUE(first.diagnostics.empty());
  EXPECT_TRUE(parse_job(serialize_job(first.job), "b").diagnostics.empty());
}

TEST(Job, EveryShareOfWarmupReadsBackEqual) {
  for (int tenth = 0; tenth <= 1000; ++tenth) {
    const std::string text = "run: {script: t.py}\nbatch: {warmup: " + std::to_string(tenth / 10) +
                             "." + std::to_string(tenth % 10) + "%}\n";
    const ParsedJob first = parse_job(text, "a");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(parse_job(serialize_job(first.job), "b").job, first.job) << text;
  }
}

TEST(JobFile, UnreadableAndHugeFilesAreErrors) {
  EXPECT_THAT(read_job_file("/nonexistent/job.yaml").error().message,
              HasSubstr("cannot read /nonexistent/job.yaml"));
  EXPECT_FALSE(read_job_file("/").ok());
  EXPECT_THAT(read_job_file("/dev/zero").error().message, HasSubstr("too large"));
}

}  // namespace
}  // namespace shanty
