#include "lint/manifest/workload.h"

#include <algorithm>

#include "lint/contains.h"
#include "lint/manifest/quantity.h"
#include "lint/manifest/pod_groups.h"

namespace shanty::lint {
namespace {

double quantity_or_zero(Ref value) { return parse_quantity(value.text()).value_or(0); }

Environment read_env(Ref list) {
  Environment env;
  if (!list.is_sequence()) return env;
  for (const YamlNode& item : list.items()) {
    const Ref name = Ref(item)["name"];
    const Ref value = Ref(item)["value"];
    if (!name) continue;
    EnvVar variable{.name = std::string(name.text()), .place = name.node()->place};
    variable.value_place = value ? value.node()->place : variable.place;
    variable.value_node = value.node();
    if (value) variable.value = std::string(value.text());
    env.push_back(std::move(variable));
  }
  return env;
}

void read_containers(Ref list, bool is_init, std::vector<Container>& out) {
  if (!list.is_sequence()) return;
  for (const YamlNode& node : list.items()) out.push_back(read_container(node, is_init));
}

bool names_training(std::string_view script) {
  for (std::string_view part :
       {"train", "finetune", "fine_tune", "fine-tune", "sft", "ddp", "fsdp"}) {
    if (contains(script, part)) return true;
  }
  return false;
}

bool forms_world(const Container& container) {
  switch (container.command.launcher()) {
    case Launcher::kTorchrun:
    case Launcher::kAccelerate:
    case Launcher::kDeepspeed:
      return true;
    case Launcher::kPython:
    case Launcher::kMpirun:
    case Launcher::kNone:
      break;
  }
  for (std::string_view name :
       {"MASTER_ADDR", "WORLD_SIZE", "RANK", "NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR"}) {
    if (find_variable(container.env, name) != nullptr) return true;
  }
  const Word* script = container.command.script();
  return container.gpus() > 0 && script != nullptr && names_training(script->text);
}

bool is_training_kind(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::kPytorchJob:
    case WorkloadKind::kTrainJob:
    case WorkloadKind::kTrainingRuntime:
    case WorkloadKind::kMpiJob:
      return true;
    case WorkloadKind::kPod:
    case WorkloadKind::kJob:
    case WorkloadKind::kCronJob:
    case WorkloadKind::kDeployment:
    case WorkloadKind::kStatefulSet:
    case WorkloadKind::kDaemonSet:
    case WorkloadKind::kKubeflowJob:
    case WorkloadKind::kJobSet:
    case WorkloadKind::kVolcanoJob:
    case WorkloadKind::kRayCluster:
    case WorkloadKind::kLeaderWorkerSet:
      return false;
  }
  return false;
}

struct KindName {
  std::string_view kind;
  std::string_view group;  // the API group, "v1" for the core
  WorkloadKind value;
};

constexpr KindName kKinds[] = {
    {"Pod", "v1", WorkloadKind::kPod},
    {"Job", "batch", WorkloadKind::kJob},
    {"CronJob", "batch", WorkloadKind::kCronJob},
    {"Deployment", "apps", WorkloadKind::kDeployment},
    {"Deployment", "extensions", WorkloadKind::kDeployment},
    {"ReplicaSet", "apps", WorkloadKind::kDeployment},
    {"StatefulSet", "apps", WorkloadKind::kStatefulSet},
    {"DaemonSet", "apps", WorkloadKind::kDaemonSet},
    {"PyTorchJob", "kubeflow.org", WorkloadKind::kPytorchJob},
    {"TFJob", "kubeflow.org", WorkloadKind::kKubeflowJob},
    {"XGBoostJob", "kubeflow.org", WorkloadKind::kKubeflowJob},
    {"PaddleJob", "kubeflow.org", WorkloadKind::kKubeflowJob},
    {"JAXJob", "kubeflow.org", WorkloadKind::kKubeflowJob},
    {"MPIJob", "kubeflow.org", WorkloadKind::kMpiJob},
    {"TrainJob", "trainer.kubeflow.org", WorkloadKind::kTrainJob},
    {"TrainingRuntime", "trainer.kubeflow.org", WorkloadKind::kTrainingRuntime},
    {"ClusterTrainingRuntime", "trainer.kubeflow.org", WorkloadKind::kTrainingRuntime},
    {"JobSet", "jobset.x-k8s.io", WorkloadKind::kJobSet},
    {"Job", "batch.volcano.sh", WorkloadKind::kVolcanoJob},
    {"RayCluster", "ray.io", WorkloadKind::kRayCluster},
    {"RayJob", "ray.io", WorkloadKind::kRayCluster},
    {"RayService", "ray.io", WorkloadKind::kRayCluster},
    {"LeaderWorkerSet", "leaderworkerset.x-k8s.io", WorkloadKind::kLeaderWorkerSet},
};

bool has_image_everywhere(const Workload& work) {
  return std::all_of(work.groups.begin(), work.groups.end(), [](const PodGroup& group) {
    return !group.pod_template || std::all_of(group.containers.begin(), group.containers.end(),
                                              [](const Container& c) { return c.node["image"]; });
  });
}

}  // namespace

double Container::requested(std::string_view resource) const {
  const Ref request = resources()["requests"][resource];
  return quantity_or_zero(request ? request : resources()["limits"][resource]);
}

double Container::limit(std::string_view resource) const {
  return quantity_or_zero(resources()["limits"][resource]);
}

double Container::gpus() const {
  double count = 0;
  for (std::string_view side : {"limits", "requests"}) {
    double here = 0;
    const Ref list = resources()[side];
    for (size_t i = 0; i < list.keys().size(); ++i) {
      if (is_gpu_resource(list.keys()[i].text)) here += quantity_or_zero(list.items()[i]);
    }
    count = std::max(count, here);
  }
  return count;
}

bool Container::asks_rdma() const {
  for (std::string_view side : {"limits", "requests"}) {
    for (const YamlKey& key : resources()[side].keys()) {
      if (is_rdma_resource(key.text)) return true;
    }
  }
  return false;
}

Container read_container(Ref node, bool is_init) {
  return {.node = node,
          .is_init = is_init,
          .name = node["name"].text(),
          .image = node["image"].text(),
          .command = CommandLine(node["command"], node["args"]),
          .env = read_env(node["env"])};
}

void read_pod_spec(PodGroup& group) {
  group.spec = group.pod_template["spec"];
  read_containers(group.spec["initContainers"], true, group.containers);
  read_containers(group.spec["containers"], false, group.containers);
}

double PodGroup::gpus_per_pod() const {
  double count = 0;
  for (const Container& container : containers) {
    if (!container.is_init) count += container.gpus();
  }
  return count;
}

const Container* PodGroup::main() const {
  const Container* first = nullptr;
  for (const Container& container : containers) {
    if (container.is_init) continue;
    if (container.gpus() > 0) return &container;
    if (first == nullptr) first = &container;
  }
  return first;
}

std::optional<int64_t> Workload::pods() const {
  int64_t count = 0;
  for (const PodGroup& group : groups) {
    if (!group.pods) return {};
    count += *group.pods;
  }
  return count;
}

double Workload::gpus() const {
  double count = 0;
  for (const PodGroup& group : groups) {
    count += group.gpus_per_pod() * static_cast<double>(group.pods.value_or(1));
  }
  return count;
}

std::optional<Workload> read_workload(const Object& object) {
  for (const KindName& known : kKinds) {
    if (object.kind != known.kind || object.api_group() != known.group) continue;
    Workload work{.object = &object, .kind = known.value};
    work.groups = read_pod_groups(object, known.value);
    work.is_whole = !object.is_patch && !work.groups.empty() && has_image_everywhere(work);
    work.is_training =
        is_training_kind(work.kind) ||
        std::any_of(work.groups.begin(), work.groups.end(), [](const auto& group) {
          return std::any_of(group.containers.begin(), group.containers.end(), forms_world);
        });
    return work;
  }
  return {};
}

}  // namespace shanty::lint
