#include "plan/plan.h"

#include <iterator>

#include <fmt/format.h>

#include "plan/rules.h"

namespace shanty {
namespace {

struct NamedRule {
  std::string_view name;
  Rule rule;
};

// In the order they are shown; a rule may read the values above it.
constexpr NamedRule kRules[] = {
    {"nodes", plan_nodes},
    {"gpus_per_node", plan_gpus_per_node},
    {"world_size", plan_world_size},
    {"accumulation", plan_accumulation},
    {"global_batch", plan_global_batch},
    {"lr_scaling", plan_lr_scaling},
    {"learning_rate", plan_learning_rate},
    {"warmup_steps", plan_warmup_steps},
    {"cpus_per_node", plan_cpus_per_node},
    {"memory_per_node_bytes", plan_memory_per_node},
    {"loader_workers", plan_loader_workers},
    {"prefetch", plan_prefetch},
    {"shm_bytes", plan_shm},
    {"gradient_bytes", plan_gradient},
    {"allreduce_bytes_per_rank", plan_allreduce_bytes},
    {"allreduce_seconds", plan_allreduce_seconds},
    {"checkpoint_interval_s", plan_checkpoint_interval},
    {"expected_loss_s", plan_expected_loss},
};

}  // namespace

const PlanValue* Plan::find(std::string_view name) const {
  for (const PlanValue& value : values) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

std::optional<uint64_t> Plan::count(std::string_view name) const {
  const PlanValue* found = find(name);
  const auto* value = found == nullptr ? nullptr : std::get_if<uint64_t>(&found->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<double> Plan::number(std::string_view name) const {
  if (const auto whole = count(name)) return static_cast<double>(*whole);
  const PlanValue* found = find(name);
  const auto* value = found == nullptr ? nullptr : std::get_if<double>(&found->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::string> Plan::text(std::string_view name) const {
  const PlanValue* found = find(name);
  const auto* value = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

bool PlanInputs::runs_here() const {
  const ScheduleSpec& schedule = job.schedule;
  const bool names_cluster = !job.run.image.empty() || !job.checkpoint.claim.empty() ||
                             !job.data.empty() || !schedule.k8s_namespace.empty() ||
                             !schedule.queue.empty();
  const bool gpus_are_here = job.gpu.model.empty() || cluster.gpus >= job.gpus_per_node;
  return !names_cluster && gpus_are_here;
}

std::string decimal_bytes(double bytes) {
  constexpr const char* kNames[] = {"kB", "MB", "GB", "TB", "PB"};
  double value = bytes / 1e3;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kNames)) {
    value /= 1e3;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string counted(uint64_t count, const char* singular, const char* plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

PlanValue known(uint64_t value, std::string unit, std::string reason) {
  return {.name = "", .value = value, .unit = std::move(unit), .reason = std::move(reason)};
}

PlanValue known(double value, std::string unit, std::string reason) {
  return {.name = "", .value = value, .unit = std::move(unit), .reason = std::move(reason)};
}

PlanValue known(std::string value, std::string reason) {
  return {.name = "", .value = std::move(value), .unit = "", .reason = std::move(reason)};
}

PlanValue unknown(std::string unit, std::string reason) {
  return {.name = "", .value = {}, .unit = std::move(unit), .reason = std::move(reason)};
}

Plan make_plan(const Job& job, const Cluster& cluster) {
  Plan plan;
  for (const NamedRule& named : kRules) {
    PlanValue value = named.rule({.job = job, .cluster = cluster, .plan = plan});
    value.name = named.name;
    plan.values.push_back(std::move(value));
  }
  return plan;
}

}  // namespace shanty
