#include "plan/plan.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job/parse.h"
#include "plan/report.h"

namespace shanty {
namespace {

using ::testing::HasSubstr;

Cluster machine() {
  return {.hostname = "here",
          .cpus = 16,
          .cpus_from = "status",
          .memory_bytes = 64ull << 30,
          .memory_from = "meminfo",
          .shm_bytes = 32ull << 30};
}

Plan plan_of(const std::string& lines, const Cluster& cluster = machine()) {
  const std::string text = "run: {script: t.py}\n" + lines;
  const ParsedJob parsed = parse_job(text, "job.yaml");
  EXPECT_TRUE(parsed.ok()) << format_diagnostics(parsed.diagnostics, text, {});
  return make_plan(parsed.job, cluster);
}

std::string reason(const Plan& plan, std::string_view name) {
  const PlanValue* value = plan.find(name);
  return value == nullptr ? "no such value" : value->reason;
}

bool is_unknown(const Plan& plan, std::string_view name) {
  const PlanValue* value = plan.find(name);
  return value != nullptr && std::holds_alternative<std::monostate>(value->value);
}

TEST(Plan, BatchAndLearningRateFollowTheWorld) {
  const Plan plan =
      plan_of("nodes: 2\ngpus_per_node: 8\nbatch: {per_gpu: 32, base_lr: 0.1, base_batch: 256}\n");
  EXPECT_EQ(plan.count("world_size"), 16u);
  EXPECT_EQ(plan.count("global_batch"), 512u);
  EXPECT_EQ(plan.text("lr_scaling"), "linear");
  EXPECT_DOUBLE_EQ(plan.number("learning_rate").value(), 0.2);
  EXPECT_THAT(reason(plan, "global_batch"), HasSubstr("32 per GPU x 8 GPUs x 2 nodes"));
}

TEST(Plan, AccumulationMultipliesTheGlobalBatch) {
  const Plan plan = plan_of("batch: {per_gpu: 32, accumulation: 4}\ngpus_per_node: 2\n");
  EXPECT_EQ(plan.count("global_batch"), 256u);
  EXPECT_EQ(plan.count("accumulation"), 4u);
}

TEST(Plan, LearningRateIsScaledBySquareRootAbove4096) {
  const std::string batch =
      "nodes: 16\ngpus_per_node: 8\nbatch: {per_gpu: 128, base_lr: 0.1, "
      "base_batch: 256";
  const Plan automatic = plan_of(batch + "}\n");
  EXPECT_EQ(automatic.count("global_batch"), 16384u);
  EXPECT_EQ(automatic.text("lr_scaling"), "sqrt");
  EXPECT_DOUBLE_EQ(automatic.number("learning_rate").value(), 0.8);
  const Plan told = plan_of(batch + ", scaling: linear}\n");
  EXPECT_DOUBLE_EQ(told.number("learning_rate").value(), 6.4);
  const Plan none = plan_of(batch + ", scaling: none}\n");
  EXPECT_DOUBLE_EQ(none.number("learning_rate").value(), 0.1);
}

TEST(Plan, ExactlyTheLinearLimitIsStillLinear) {
  EXPECT_EQ(plan_of("gpus_per_node: 8\nbatch: {per_gpu: 512}\n").text("lr_scaling"), "linear");
  EXPECT_EQ(plan_of("gpus_per_node: 8\nbatch: {per_gpu: 513}\n").text("lr_scaling"), "sqrt");
}

TEST(Plan, WarmupIsAShareOfTheSteps) {
  EXPECT_EQ(plan_of("steps: 10000\n").count("warmup_steps"), 500u);
  EXPECT_EQ(plan_of("batch: {warmup: 123}\n").count("warmup_steps"), 123u);
  const Plan plan = plan_of("");
  EXPECT_TRUE(is_unknown(plan, "warmup_steps"));
  EXPECT_THAT(reason(plan, "warmup_steps"), HasSubstr("set steps"));
}

TEST(Plan, RingAllReduceOfTwoBillionParameters) {
  const Plan plan =
      plan_of("gpus_per_node: 8\nmodel: {params: 2e9}\nnetwork: {bandwidth: 100GB/s}\n");
  EXPECT_EQ(plan.count("gradient_bytes"), 8'000'000'000u);
  EXPECT_EQ(plan.count("allreduce_bytes_per_rank"), 14'000'000'000u);
  EXPECT_DOUBLE_EQ(plan.number("allreduce_seconds").value(), 0.14);
}

TEST(Plan, HalfPrecisionHalvesAndShardingAddsHalf) {
  const std::string rest = "gpus_per_node: 8\nmodel: {params: 2e9, dtype: bf16}\n";
  EXPECT_EQ(plan_of(rest).count("allreduce_bytes_per_rank"), 7'000'000'000u);
  const ParsedJob fsdp = parse_job("run: {script: t.py, framework: fsdp}\n" + rest, "j");
  ASSERT_TRUE(fsdp.ok());
  EXPECT_EQ(make_plan(fsdp.job, machine()).count("allreduce_bytes_per_rank"), 10'500'000'000u);
}

TEST(Plan, OneRankExchangesNothing) {
  const Plan plan = plan_of("model: {params: 2e9}\n");
  EXPECT_EQ(plan.count("allreduce_bytes_per_rank"), 0u);
  EXPECT_DOUBLE_EQ(plan.number("allreduce_seconds").value(), 0);
}

TEST(Plan, CheckpointIntervalIsYoungDaly) {
  for (const char* failures : {"failures: {per_day: 1}\n", "failures: {mtbf: 1d}\n"}) {
    const Plan plan = plan_of(std::string("checkpoint: {cost: 60s}\n") + failures);
    EXPECT_DOUBLE_EQ(plan.number("checkpoint_interval_s").value(), 3220);
    EXPECT_DOUBLE_EQ(plan.number("expected_loss_s").value(), 1610);
    EXPECT_THAT(reason(plan, "checkpoint_interval_s"), HasSubstr("3219.9 s"));
    EXPECT_THAT(reason(plan, "checkpoint_interval_s"), HasSubstr("first order"));
  }
}

TEST(Plan, CheckpointIntervalThatIsToldIsKept) {
  const Plan plan = plan_of("checkpoint: {every: 30m}\n");
  EXPECT_DOUBLE_EQ(plan.number("checkpoint_interval_s").value(), 1800);
  EXPECT_DOUBLE_EQ(plan.number("expected_loss_s").value(), 900);
}

TEST(Plan, CheckpointIntervalWithoutMeasurementNamesTheKeysToSet) {
  const Plan plan = plan_of("");
  EXPECT_DOUBLE_EQ(plan.number("checkpoint_interval_s").value(), 900);
  EXPECT_THAT(reason(plan, "checkpoint_interval_s"),
              HasSubstr("set checkpoint.cost and failures.per_day"));
  EXPECT_THAT(reason(plan_of("checkpoint: {cost: 5s}\n"), "checkpoint_interval_s"),
              HasSubstr("set failures.per_day"));
}

TEST(Plan, CheckpointsThatCostMoreThanTheTimeBetweenFailuresAreCalledOut) {
  const Plan plan = plan_of("checkpoint: {cost: 10m}\nfailures: {mtbf: 1m}\n");
  EXPECT_DOUBLE_EQ(plan.number("checkpoint_interval_s").value(), 600);
  EXPECT_THAT(reason(plan, "checkpoint_interval_s"), HasSubstr("hardly advance"));
}

TEST(Plan, ThisMachineIsSharedByTheNodesThatRunOnIt) {
  const Plan plan = plan_of("nodes: 2\ngpus_per_node: 4\n");
  EXPECT_EQ(plan.count("cpus_per_node"), 8u);
  EXPECT_EQ(plan.count("memory_per_node_bytes"), 32ull << 30);
  EXPECT_EQ(plan.count("loader_workers"), 2u);
  EXPECT_EQ(plan.count("shm_bytes"), 16ull << 30);
}

TEST(Plan, LoaderWorkersStayBetweenOneAndEight) {
  EXPECT_EQ(plan_of("").count("loader_workers"), 8u);
  EXPECT_EQ(plan_of("nodes: 4\ngpus_per_node: 8\n").count("loader_workers"), 1u);
  EXPECT_EQ(plan_of("loader: {workers: 0}\n").count("loader_workers"), 0u);
  EXPECT_EQ(plan_of("loader: {workers: 0}\n").count("shm_bytes"), 1ull << 30);
  EXPECT_EQ(plan_of("loader: {workers: 12}\n").count("loader_workers"), 12u);
}

TEST(Plan, ClusterNodesGetWhatGpusNeed) {
  const ParsedJob parsed = parse_job(
      "run: {script: t.py, image: registry/x:1}\nnodes: 2\ngpus_per_node: 8\n", "job.yaml");
  ASSERT_TRUE(parsed.ok());
  const Plan plan = make_plan(parsed.job, machine());
  EXPECT_EQ(plan.count("cpus_per_node"), 64u);
  EXPECT_EQ(plan.count("memory_per_node_bytes"), 512'000'000'000u);
  EXPECT_EQ(plan.count("loader_workers"), 8u);
  EXPECT_EQ(plan.count("shm_bytes"), 128ull << 30);
}

TEST(Plan, GpusThatAreNotHereArePlannedForACluster) {
  EXPECT_EQ(plan_of("gpus_per_node: 4\ngpu: {model: a100-80g}\n").count("cpus_per_node"), 32u);
}

TEST(Plan, TooSmallShmIsSaid) {
  Cluster small = machine();
  small.shm_bytes = 64u << 20;
  EXPECT_THAT(reason(plan_of("", small), "shm_bytes"), HasSubstr("which is less"));
}

TEST(Plan, UnknownInputsGiveUnknownValuesThatNameTheKey) {
  const Plan plan = plan_of("gpus_per_node: 2\n", Cluster{});
  for (const char* name : {"global_batch", "learning_rate", "gradient_bytes", "cpus_per_node",
                           "allreduce_bytes_per_rank", "allreduce_seconds", "memory_per_node_bytes",
                           "loader_workers", "shm_bytes"}) {
    EXPECT_TRUE(is_unknown(plan, name)) << name;
    EXPECT_FALSE(reason(plan, name).empty()) << name;
  }
  EXPECT_THAT(reason(plan, "gradient_bytes"), HasSubstr("model.params"));
}

TEST(Plan, LargestJobTheFileAllowsDoesNotOverflow) {
  const Plan plan = plan_of(
      "nodes: 100000\ngpus_per_node: 1024\nbatch: {per_gpu: 1000000, accumulation: 10000}\n"
      "model: {params: 1e15}\nsteps: 1e15\nloader: {workers: 512}\n");
  EXPECT_EQ(plan.count("global_batch"), 1'024'000'000'000'000'000u);
  EXPECT_EQ(plan.count("gradient_bytes"), 4'000'000'000'000'000u);
}

TEST(PlanReport, JsonHasEveryValueWithUnitAndReason) {
  const Plan plan = plan_of("nodes: 2\ngpus_per_node: 8\nbatch: {per_gpu: 32}\n");
  const auto json = nlohmann::json::parse(plan_json(plan));
  for (const char* name :
       {"nodes", "gpus_per_node", "world_size", "global_batch", "learning_rate", "lr_scaling",
        "warmup_steps", "accumulation", "loader_workers", "prefetch", "shm_bytes", "cpus_per_node",
        "memory_per_node_bytes", "gradient_bytes", "allreduce_bytes_per_rank", "allreduce_seconds",
        "checkpoint_interval_s", "expected_loss_s"}) {
    const auto& value = json["values"][name];
    EXPECT_TRUE(value.contains("value")) << name;
    EXPECT_TRUE(value["unit"].is_string()) << name;
    EXPECT_FALSE(value["reason"].get<std::string>().empty()) << name;
  }
  EXPECT_EQ(json["values"]["global_batch"]["value"], 512);
  EXPECT_TRUE(json["values"]["gradient_bytes"]["value"].is_null());
}

TEST(PlanReport, TableIsReadable) {
  const std::string table = plan_table(
      plan_of("gpus_per_node: 8\nmodel: {params: 2e9}\nnetwork: {bandwidth: 100GB/s}\n"), {});
  EXPECT_THAT(table, HasSubstr("14.0 GB"));
  EXPECT_THAT(table, HasSubstr("140 ms"));
  EXPECT_THAT(table, HasSubstr("unknown"));
}

}  // namespace
}  // namespace shanty
