#pragma once

#include <string>

#include "plan/plan.h"

namespace shanty {

// What a rule may look at. `plan` holds the values of the rules before it in plan.cc.
struct PlanInputs {
  const Job& job;
  const Cluster& cluster;
  const Plan& plan;

  // The job runs on this machine, so what it has is what there is. Otherwise it asks a cluster
  // for nodes of the size the rules recommend.
  bool runs_here() const;
};

// A rule gives its value, unit and reason; the table in plan.cc gives the name.
using Rule = PlanValue (*)(const PlanInputs&);

// "14.0 GB", in powers of 1000 as networks are told.
std::string decimal_bytes(double bytes);
// "1 node", "2 nodes".
std::string counted(uint64_t count, const char* singular, const char* plural);

PlanValue known(uint64_t value, std::string unit, std::string reason);
PlanValue known(double value, std::string unit, std::string reason);
PlanValue known(std::string value, std::string reason);
PlanValue unknown(std::string unit, std::string reason);

PlanValue plan_nodes(const PlanInputs&);
PlanValue plan_gpus_per_node(const PlanInputs&);
PlanValue plan_world_size(const PlanInputs&);

PlanValue plan_accumulation(const PlanInputs&);
PlanValue plan_global_batch(const PlanInputs&);
PlanValue plan_lr_scaling(const PlanInputs&);
PlanValue plan_learning_rate(const PlanInputs&);
PlanValue plan_warmup_steps(const PlanInputs&);

PlanValue plan_cpus_per_node(const PlanInputs&);
PlanValue plan_memory_per_node(const PlanInputs&);
PlanValue plan_loader_workers(const PlanInputs&);
PlanValue plan_prefetch(const PlanInputs&);
PlanValue plan_shm(const PlanInputs&);

PlanValue plan_gradient(const PlanInputs&);
PlanValue plan_allreduce_bytes(const PlanInputs&);
PlanValue plan_allreduce_seconds(const PlanInputs&);

PlanValue plan_checkpoint_interval(const PlanInputs&);
PlanValue plan_expected_loss(const PlanInputs&);

}  // namespace shanty
