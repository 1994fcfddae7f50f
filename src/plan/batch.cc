#include <cmath>

#include <fmt/format.h>

#include "base/units.h"
#include "plan/rules.h"

namespace shanty {
namespace {

// Above this global batch the linear rule is known to lose accuracy.
constexpr uint64_t kMaxLinearBatch = 4096;

PlanValue scaling_auto(std::optional<uint64_t> global) {
  if (!global) {
    return known("linear", "the usual rule; sqrt if the global batch turns out above 4096");
  }
  if (*global <= kMaxLinearBatch) {
    return known("linear",
                 fmt::format("a global batch of {} is at most {}", *global, kMaxLinearBatch));
  }
  return known("sqrt",
               fmt::format("a global batch of {} is above {}, where linear scaling tends to "
                           "diverge; batch.scaling chooses otherwise",
                           *global, kMaxLinearBatch));
}

}  // namespace

PlanValue plan_accumulation(const PlanInputs& in) {
  const uint64_t passes = in.job.batch.accumulation;
  return known(passes, "passes per step",
               passes == 1 ? "no accumulation asked for" : "as batch.accumulation says");
}

PlanValue plan_global_batch(const PlanInputs& in) {
  const BatchSpec& batch = in.job.batch;
  if (!batch.per_gpu) return unknown("samples", "set batch.per_gpu");
  const uint64_t gpus = in.job.gpus_per_node;
  const uint64_t nodes = in.job.nodes.max;
  return known(*batch.per_gpu * gpus * nodes * batch.accumulation, "samples",
               fmt::format("{} per GPU x {} x {} x {} accumulation", *batch.per_gpu,
                           counted(gpus, "GPU", "GPUs"), counted(nodes, "node", "nodes"),
                           batch.accumulation));
}

PlanValue plan_lr_scaling(const PlanInputs& in) {
  switch (in.job.batch.scaling) {
    case LrScaling::kAuto:
      return scaling_auto(in.plan.count("global_batch"));
    case LrScaling::kLinear:
      return known("linear", "as batch.scaling says");
    case LrScaling::kSqrt:
      return known("sqrt", "as batch.scaling says");
    case LrScaling::kNone:
      return known("none", "as batch.scaling says");
  }
  return unknown("", "");
}

PlanValue plan_learning_rate(const PlanInputs& in) {
  const BatchSpec& batch = in.job.batch;
  const std::string scaling = in.plan.text("lr_scaling").value_or("none");
  if (!batch.base_lr) return unknown("", "set batch.base_lr and batch.base_batch");
  if (scaling == "none") return known(*batch.base_lr, "", "batch.base_lr, not scaled");
  const auto global = in.plan.count("global_batch");
  if (!global) return unknown("", "needs global_batch: set batch.per_gpu");
  if (!batch.base_batch) return unknown("", "set batch.base_batch");
  const double ratio = static_cast<double>(*global) / static_cast<double>(*batch.base_batch);
  if (scaling == "linear") {
    return known(*batch.base_lr * ratio, "",
                 fmt::format("base_lr {} x {} / {}: linear in the global batch", *batch.base_lr,
                             *global, *batch.base_batch));
  }
  return known(*batch.base_lr * std::sqrt(ratio), "",
               fmt::format("base_lr {} x square root of ({} / {})", *batch.base_lr, *global,
                           *batch.base_batch));
}

PlanValue plan_warmup_steps(const PlanInputs& in) {
  const Warmup& warmup = in.job.batch.warmup;
  if (warmup.steps) return known(*warmup.steps, "steps", "as batch.warmup says");
  const double percent = warmup.share * 100;
  if (!in.job.steps)
    return unknown("steps", fmt::format("{:g} % of the steps: set steps", percent));
  const double steps = static_cast<double>(*in.job.steps) * warmup.share;
  return known(
      static_cast<uint64_t>(std::llround(steps)), "steps",
      fmt::format("{:g} % of {} steps", percent, format_count(static_cast<double>(*in.job.steps))));
}

}  // namespace shanty
