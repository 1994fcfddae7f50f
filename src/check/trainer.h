#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace shanty::check {

// A TrainJob of Kubeflow Trainer says little itself: what its pods are stands in a TrainingRuntime
// or ClusterTrainingRuntime.

struct RuntimeName {
  std::string kind;  // TrainingRuntime, of the TrainJob's namespace, or ClusterTrainingRuntime
  std::string name;
};
// Of every TrainJob among `objects`, the runtimes that are not among them.
std::vector<RuntimeName> missing_runtimes(const std::vector<nlohmann::json>& objects);

struct TrainerPlan {
  std::vector<nlohmann::json> jobs;  // replicatedJobs of the JobSet that Trainer makes
  bool is_gang = false;
  std::string volcano_queue;
};
// `objects` hold its runtime; where they do not, the pods are what the TrainJob itself says of
// them. All versions of the TrainJob are read, 2.0 to 2.3.
TrainerPlan plan_of_trainer(const nlohmann::json& train_job,
                            const std::vector<nlohmann::json>& objects);

}  // namespace shanty::check
