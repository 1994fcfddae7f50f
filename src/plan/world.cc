#include "plan/rules.h"

namespace shanty {

PlanValue plan_nodes(const PlanInputs& in) {
  return known(in.job.nodes.max, "", in.job.nodes.max == 1 ? "one node" : "as the job says");
}

PlanValue plan_gpus_per_node(const PlanInputs& in) {
  if (in.runs_here() && in.cluster.gpus == 0) {
    return known(in.job.gpus_per_node, "", "one process each; this machine has no GPU, so on CPU");
  }
  return known(in.job.gpus_per_node, "", "one process per GPU");
}

PlanValue plan_world_size(const PlanInputs& in) {
  const uint64_t nodes = in.job.nodes.max;
  const uint64_t gpus = in.job.gpus_per_node;
  return known(nodes * gpus, "ranks",
               counted(nodes, "node", "nodes") + " x " + counted(gpus, "process", "processes") +
                   " per node");
}

}  // namespace shanty
