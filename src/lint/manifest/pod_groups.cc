#include "lint/manifest/pod_groups.h"

#include <algorithm>

namespace shanty::lint {
namespace {

constexpr int64_t kMaxPods = 10'000'000;

using Groups = std::vector<PodGroup>;
using Count = std::optional<int64_t>;

// A number that is not written is `fallback`; one that is no number is not known.
Count count_or(Ref value, int64_t fallback) {
  if (!value) return fallback;
  const Count count = value.integer();
  if (!count || *count < 0 || *count > kMaxPods) return {};
  return count;
}

Count product(Count a, Count b) {
  if (!a || !b) return {};
  return std::min(*a * *b, kMaxPods);
}

PodGroup group_of(std::string_view role, Ref entry, Ref pod_template) {
  PodGroup group{.role = role, .entry = entry, .pod_template = pod_template};
  read_pod_spec(group);
  return group;
}

void add(Groups& groups, PodGroup group, Ref replicas, Count pods) {
  if (!group.spec && group.containers.empty()) return;
  group.replicas = replicas;
  group.pods = pods;
  groups.push_back(std::move(group));
}

void add_job(Groups& groups, std::string_view role, Ref job_spec, Count times) {
  const Ref parallelism = job_spec["parallelism"];
  add(groups, group_of(role, job_spec, job_spec["template"]), parallelism,
      product(count_or(parallelism, 1), times));
}

void add_replicated(Groups& groups, std::string_view role, Ref entry) {
  add(groups, group_of(role, entry, entry["template"]), entry["replicas"],
      count_or(entry["replicas"], 1));
}

// "pytorchReplicaSpecs", "mpiReplicaSpecs": one entry per role.
void add_roles(Groups& groups, Ref spec) {
  for (size_t i = 0; i < spec.keys().size(); ++i) {
    const std::string_view key = spec.keys()[i].text;
    if (key.size() < 12 || key.substr(key.size() - 12) != "ReplicaSpecs") continue;
    const Ref roles(spec.items()[i]);
    for (size_t j = 0; j < roles.keys().size(); ++j) {
      add_replicated(groups, roles.keys()[j].text, roles.items()[j]);
    }
  }
}

void add_replicated_jobs(Groups& groups, Ref jobset_spec) {
  if (!jobset_spec["replicatedJobs"].is_sequence()) return;
  for (const YamlNode& job : jobset_spec["replicatedJobs"].items()) {
    const Ref entry(job);
    add_job(groups, entry["name"].text(), entry["template"]["spec"],
            count_or(entry["replicas"], 1));
  }
}

// The trainer of a TrainJob is the container of a template that stands in its runtime.
void add_trainer(Groups& groups, Ref spec) {
  const Ref trainer = spec["trainer"];
  if (!trainer) return;
  PodGroup group{.role = "trainer", .entry = trainer};
  group.containers.push_back(read_container(trainer, false));
  add(groups, std::move(group), trainer["numNodes"], count_or(trainer["numNodes"], 1));
}

void add_ray(Groups& groups, Ref cluster) {
  const Ref head = cluster["headGroupSpec"];
  add(groups, group_of("head", head, head["template"]), {}, 1);
  if (!cluster["workerGroupSpecs"].is_sequence()) return;
  for (const YamlNode& node : cluster["workerGroupSpecs"].items()) {
    const Ref entry(node);
    add(groups, group_of(entry["groupName"].text(), entry, entry["template"]), entry["replicas"],
        product(count_or(entry["replicas"], 1), count_or(entry["numOfHosts"], 1)));
  }
}

// One group of a LeaderWorkerSet is one world.
void add_leader_and_workers(Groups& groups, Ref spec) {
  const Ref entry = spec["leaderWorkerTemplate"];
  const Count size = count_or(entry["size"], 1);
  const bool has_leader = static_cast<bool>(entry["leaderTemplate"]);
  if (has_leader) add(groups, group_of("leader", entry, entry["leaderTemplate"]), {}, 1);
  const Count workers = size && has_leader ? Count(std::max<int64_t>(*size - 1, 0)) : size;
  add(groups, group_of(has_leader ? "worker" : "", entry, entry["workerTemplate"]), entry["size"],
      workers);
}

void add_tasks(Groups& groups, Ref spec) {
  if (!spec["tasks"].is_sequence()) return;
  for (const YamlNode& task : spec["tasks"].items()) {
    add_replicated(groups, Ref(task)["name"].text(), task);
  }
}

}  // namespace

std::vector<PodGroup> read_pod_groups(const Object& object, WorkloadKind kind) {
  Groups groups;
  const Ref spec = object.root["spec"];
  switch (kind) {
    case WorkloadKind::kPod:
      add(groups, group_of("", object.root, object.root), {}, 1);
      break;
    case WorkloadKind::kJob:
      add_job(groups, "", spec, 1);
      break;
    case WorkloadKind::kCronJob:
      add_job(groups, "", spec["jobTemplate"]["spec"], 1);
      break;
    case WorkloadKind::kDeployment:
    case WorkloadKind::kStatefulSet:
    case WorkloadKind::kDaemonSet:
      add_replicated(groups, "", spec);
      break;
    case WorkloadKind::kPytorchJob:
    case WorkloadKind::kKubeflowJob:
    case WorkloadKind::kMpiJob:
      add_roles(groups, spec);
      break;
    case WorkloadKind::kTrainJob:
      add_trainer(groups, spec);
      break;
    case WorkloadKind::kTrainingRuntime:
      add_replicated_jobs(groups, spec["template"]["spec"]);
      break;
    case WorkloadKind::kJobSet:
      add_replicated_jobs(groups, spec);
      break;
    case WorkloadKind::kVolcanoJob:
      add_tasks(groups, spec);
      break;
    case WorkloadKind::kRayCluster:
      add_ray(groups, spec["rayClusterSpec"]     ? spec["rayClusterSpec"]
                      : spec["rayClusterConfig"] ? spec["rayClusterConfig"]
                                                 : spec);
      break;
    case WorkloadKind::kLeaderWorkerSet:
      add_leader_and_workers(groups, spec);
      break;
  }
  return groups;
}

}  // namespace shanty::lint
