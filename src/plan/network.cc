#include <cmath>

#include <fmt/format.h>

#include "base/units.h"
#include "job/keys.h"
#include "plan/rules.h"

namespace shanty {
namespace {

uint64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return 4;
    case Dtype::kBf16:
    case Dtype::kFp16:
      return 2;
  }
  return 4;
}

// The interface of this machine is only a hint: ranks on one machine do not use it, and a
// cluster's nodes may have another.
std::string bandwidth_hint(const PlanInputs& in) {
  if (in.job.nodes.max == 1 || !in.cluster.link_bytes_per_s) return "set network.bandwidth";
  return fmt::format("set network.bandwidth; {} of this machine has {}/s", in.cluster.link_name,
                     decimal_bytes(*in.cluster.link_bytes_per_s));
}

}  // namespace

PlanValue plan_gradient(const PlanInputs& in) {
  const ModelSpec& model = in.job.model;
  if (!model.params) return unknown("bytes", "set model.params");
  const double bytes = *model.params * static_cast<double>(bytes_of(model.dtype));
  return known(static_cast<uint64_t>(std::llround(bytes)), "bytes",
               fmt::format("{} parameters x {} bytes ({})", format_count(*model.params),
                           bytes_of(model.dtype), choice_name(model.dtype)));
}

PlanValue plan_allreduce_bytes(const PlanInputs& in) {
  const auto gradient = in.plan.number("gradient_bytes");
  const uint64_t world = in.plan.count("world_size").value_or(1);
  if (in.job.run.framework == Framework::kOther) {
    return unknown("bytes", "what the ranks exchange is known for run.framework ddp and fsdp only");
  }
  if (world == 1) return known(uint64_t{0}, "bytes", "one rank exchanges nothing");
  if (!gradient) return unknown("bytes", "needs gradient_bytes: set model.params");
  const bool is_sharded = in.job.run.framework == Framework::kFsdp;
  const uint64_t factor = is_sharded ? 3 : 2;
  const double ranks = static_cast<double>(world);
  const double bytes = static_cast<double>(factor) * (ranks - 1) / ranks * *gradient;
  return known(static_cast<uint64_t>(std::llround(bytes)), "bytes",
               fmt::format("{} {} x ({} - 1) / {} of {} each step",
                           is_sharded ? "fsdp: two all-gathers and a reduce-scatter move"
                                      : "a ring all-reduce moves",
                           factor, world, world, decimal_bytes(*gradient)));
}

PlanValue plan_allreduce_seconds(const PlanInputs& in) {
  const auto bytes = in.plan.number("allreduce_bytes_per_rank");
  if (!bytes) return unknown("s", "needs allreduce_bytes_per_rank");
  if (*bytes == 0) return known(0.0, "s", "one rank exchanges nothing");
  const auto bytes_per_s = in.job.network.bandwidth_bytes_per_s;
  if (!bytes_per_s) return unknown("s", bandwidth_hint(in));
  return known(*bytes / *bytes_per_s, "s",
               fmt::format("{} at {}/s (network.bandwidth), if nothing overlaps",
                           decimal_bytes(*bytes), decimal_bytes(*bytes_per_s)));
}

}  // namespace shanty
